// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// TestI1ACNIDeleteWaitsWhereASandboxMayBeMissing: the pod has no record yet. What this replica saw of its entry speaks for it.
func TestI1ACNIDeleteWaitsWhereASandboxMayBeMissing(t *testing.T) {
	key := ipam.Key{Backend: "whereabouts", Pool: "kube-system/10.10.0.0-24", IP: netip.MustParseAddr("10.10.0.1"), SandboxID: sandbox0}
	of := func(change func(*ipam.Entry)) []ipam.Entry {
		e := ipam.Entry{Key: key, Seen: ipam.Seen{SeenSince: time.Now(), AddObserved: true, Whole: true}}
		change(&e)
		return []ipam.Entry{e}
	}
	for name, tc := range map[string]struct {
		seen []ipam.Entry
		mode configv1alpha1.ReleaseMode
		want bool
	}{
		"it saw nothing: its cache is late":           {nil, configv1alpha1.ReleaseModeDeny, false},
		"it saw the entry come":                       {of(func(*ipam.Entry) {}), configv1alpha1.ReleaseModeDeny, true},
		"it missed a version of the pool":             {of(func(e *ipam.Entry) { e.Whole = false }), configv1alpha1.ReleaseModeDeny, false},
		"another sandbox of the pod had the place":    {of(func(e *ipam.Entry) { e.Follows = "lost" }), configv1alpha1.ReleaseModeDeny, false},
		"what it saw was another address":             {of(func(e *ipam.Entry) { e.IP = e.IP.Next() }), configv1alpha1.ReleaseModeDeny, false},
		"what it saw was another pool":                {of(func(e *ipam.Entry) { e.Pool = "kube-system/other" }), configv1alpha1.ReleaseModeDeny, false},
		"what it saw was another sandbox":             {of(func(e *ipam.Entry) { e.SandboxID = "other" }), configv1alpha1.ReleaseModeDeny, false},
		"the mode Warn refuses nothing, deferred too": {nil, configv1alpha1.ReleaseModeWarn, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := onNodeA()
			c.objects[0].(*corev1.Pod).Finalizers, c.seen = []string{v1alpha1.Finalizer}, tc.seen
			guard, events := c.guard(t, tc.mode)
			guard.options.Evidence, guard.options.PoliciesSince = release.EvidenceAgent, policiesOf(time.Now().Add(-time.Hour))
			response := (&IPPoolReleaseValidator{guard}).Handle(t.Context(), removal(t, cniToken(), poolRange, web0))
			deferred := !response.Allowed && response.Result.Code == http.StatusForbidden && strings.Contains(response.Result.Message, string(v1alpha1.ReasonCNIDeleteDeferred))
			if response.Allowed != tc.want || deferred == tc.want {
				t.Errorf("got %+v, allowed expected: %t", response, tc.want)
			}
			if len(events) > 0 {
				t.Errorf("an event %q, expected none: nothing is to be done", <-events)
			}
		})
	}
}
