// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// series are what a collector gives to a scrape, by labels.
func series(t *testing.T, collector prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), Prefix)
			for _, label := range metric.GetLabel() {
				name += fmt.Sprintf(" %s=%s", label.GetName(), label.GetValue())
			}
			got[name] = metric.GetGauge().GetValue()
		}
	}
	return got
}

func TestWhatIsScrapedIsWhatIsSoNow(t *testing.T) {
	t.Cleanup(func() { OldestHold.From(nil) })
	OldestHold.From(func() map[string]time.Duration {
		return map[string]time.Duration{"Conflict": time.Minute, "NodeUnreachable": 2 * time.Hour}
	})
	want := map[string]float64{"oldest_hold_seconds reason=Conflict": 60, "oldest_hold_seconds reason=NodeUnreachable": 7200}
	if diff := cmp.Diff(want, series(t, OldestHold)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	OldestHold.From(func() map[string]time.Duration { return map[string]time.Duration{"Conflict": 61 * time.Second} })
	if diff := cmp.Diff(map[string]float64{"oldest_hold_seconds reason=Conflict": 61}, series(t, OldestHold)); diff != "" {
		t.Errorf("once nothing waits for a reason any more (-want +got):\n%s", diff)
	}
}

func TestWithoutASourceThereIsNoSeries(t *testing.T) {
	for name, collector := range map[string]prometheus.Collector{"holds": OldestHold, "pools": Pools, "certificate": CertificateEnd} {
		if got := series(t, collector); len(got) != 0 {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestTheEndOfTheCertificate(t *testing.T) {
	t.Cleanup(func() { CertificateEnd.From(nil) })
	end := time.Time{}
	CertificateEnd.From(func() time.Time { return end })
	if got := series(t, CertificateEnd); len(got) != 0 {
		t.Errorf("without a certificate: got %v, expected no series: 1970 would alert", got)
	}
	end = time.Unix(1800000000, 0)
	if diff := cmp.Diff(map[string]float64{"webhook_certificate_expiration_timestamp_seconds": 1800000000}, series(t, CertificateEnd)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFurtherRangesShareTheirSeries(t *testing.T) {
	uses := make([]PoolUse, 0, PoolRanges+3)
	for i := range PoolRanges + 3 {
		uses = append(uses, PoolUse{Backend: "b", Range: fmt.Sprintf("10.0.%03d.0/24", i), Addresses: 254, Entries: float64(i), Fullest: float64(i) / 254})
	}
	t.Cleanup(func() { Pools.From(nil) })
	Pools.From(func() []PoolUse { return uses })
	got := series(t, Pools)
	if len(got) != 3*(PoolRanges+1) {
		t.Errorf("%d ranges have %d series, expected three for each of %d and for the others", len(uses), len(got), PoolRanges)
	}
	want := map[string]float64{
		"ipam_pool_addresses backend=b network= range=other":             3 * 254,
		"ipam_pool_entries backend=b network= range=other":               100 + 101 + 102,
		"ipam_pool_fullest_ratio backend=b network= range=other":         102. / 254,
		"ipam_pool_entries backend=b network= range=10.0.099.0/24":       99,
		"ipam_pool_addresses backend=b network= range=10.0.000.0/24":     254,
		"ipam_pool_fullest_ratio backend=b network= range=10.0.099.0/24": 99. / 254,
	}
	maps.DeleteFunc(got, func(name string, _ float64) bool { _, asked := want[name]; return !asked })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(uses) != PoolRanges+3 || uses[PoolRanges].Range == PoolOther {
		t.Error("what the source gave was changed")
	}
}
