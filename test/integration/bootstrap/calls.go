// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
)

// ours is at the end of the name of every webhook of Holdfast.
const ours = ".holdfast.dev"

var (
	requests        = regexp.MustCompile(`^apiserver_admission_webhook_request_total\{.*name="([^"]+)".*\} ([0-9.e+]+)$`)
	conditionErrors = regexp.MustCompile(`^apiserver_admission_match_condition_evaluation_errors_total\{.*name="([^"]+)".*\} ([0-9.e+]+)$`)
)

// count reads a counter of the API server, for each webhook of Holdfast: how often it was called, with any result.
func count(ctx context.Context, counter *regexp.Regexp) map[string]int {
	GinkgoHelper()
	clientset, err := kubernetes.NewForConfig(plane.Config())
	Expect(err).NotTo(HaveOccurred())
	metrics, err := clientset.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	counts := map[string]int{}
	for line := range strings.Lines(string(metrics)) {
		match := counter.FindStringSubmatch(strings.TrimSpace(line))
		if match == nil || !strings.HasSuffix(match[1], ours) {
			continue
		}
		value, err := strconv.ParseFloat(match[2], 64)
		Expect(err).NotTo(HaveOccurred())
		counts[match[1]] += int(value)
	}
	return counts
}

// callsDuring is which webhooks of Holdfast the API server called meanwhile, and how often.
func callsDuring(ctx context.Context, act func()) map[string]int {
	GinkgoHelper()
	before := count(ctx, requests)
	act()
	during := map[string]int{}
	for name, after := range count(ctx, requests) {
		if calls := after - before[name]; calls > 0 {
			during[name] = calls
		}
	}
	return during
}
