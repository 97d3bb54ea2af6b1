// SPDX-License-Identifier: Apache-2.0

package shapes_test

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// ledger is what the manager has counted: its metrics, by name and labels.
type ledger map[string]float64

// The metrics that are looked at.
const (
	releases       = "holdfast_releases_total"
	unsafeReleases = "holdfast_unsafe_releases_total"
)

func readLedger(ctx context.Context) ledger {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, metricsURL, nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	Expect(response).To(HaveHTTPStatus(http.StatusOK))
	l := ledger{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		series, value, found := strings.Cut(lines.Text(), " ")
		if !found || !slices.ContainsFunc([]string{releases, unsafeReleases}, func(name string) bool { return strings.HasPrefix(series, name+"{") }) {
			continue
		}
		l[series], err = strconv.ParseFloat(value, 64)
		Expect(err).NotTo(HaveOccurred())
	}
	return l
}

// since is how much a metric, with all of these label values, has grown since an earlier reading.
func (l ledger) since(before ledger, metric string, values ...string) (n float64) {
	for series, value := range l {
		if strings.HasPrefix(series, metric+"{") && !slices.ContainsFunc(values, func(v string) bool { return !strings.Contains(series, `"`+v+`"`) }) {
			n += value - before[series]
		}
	}
	return n
}
