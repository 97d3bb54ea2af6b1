// SPDX-License-Identifier: Apache-2.0

package guarded_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// awaitReport waits for an event of the audit.
func awaitReport(ctx context.Context, kind v1alpha1.Reason, of gomegatypes.GomegaMatcher) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		var list corev1.EventList
		g.Expect(admin.List(ctx, &list)).To(Succeed())
		g.Expect(list.Items).To(ContainElement(And(HaveField("Reason", string(kind)), of)))
	}).Should(Succeed())
}

// awaitStanding waits until the metric says that so many findings of a kind stand.
func awaitStanding(ctx context.Context, kind v1alpha1.Reason, n int) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(metricsLines(ctx, g)).To(ContainElement(fmt.Sprintf("holdfast_ipam_inconsistencies{kind=%q} %d", kind, n)))
	}).Should(Succeed())
}

// expectNothingStands expects that no finding of these kinds stands: what is guarded well is not reported.
func expectNothingStands(ctx context.Context, kinds ...v1alpha1.Reason) {
	GinkgoHelper()
	for _, kind := range kinds {
		Expect(metricsLines(ctx, Default)).To(ContainElement(fmt.Sprintf("holdfast_ipam_inconsistencies{kind=%q} 0", kind)))
	}
}

func metricsLines(ctx context.Context, g Gomega) (lines []string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, metricsURL, nil)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	for all := bufio.NewScanner(response.Body); all.Scan(); {
		if strings.HasPrefix(all.Text(), "holdfast_ipam_inconsistencies") {
			lines = append(lines, all.Text())
		}
	}
	return lines
}
