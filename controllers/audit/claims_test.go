// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// wholeRange is a network-status with every free address of the shared network.
func wholeRange() string {
	addresses := make([]string, 0, 253)
	for i := 1; i < 254; i++ {
		addresses = append(addresses, fmt.Sprintf(`"10.0.0.%d"`, i))
	}
	return `[{"name":"ns/wb","interface":"net1","ips":[` + strings.Join(addresses, ",") + `]}]`
}

// A tenant with the right to create and patch pods in one namespace writes any annotation.
func TestATenantsAnnotationReservesNothingThatItsPodWasNotGiven(t *testing.T) {
	status := func(text string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[nadv1.NetworkStatusAnnot] = text }
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		entry  bool
		writes int
	}{
		"every free address of a shared network":            {change: status(wholeRange())},
		"every one, beside its own entry":                   {change: status(wholeRange()), entry: true, writes: 1}, // its own entry lacks its reservation
		"one address of a network that it does not request": {change: func(p *corev1.Pod) { delete(p.Annotations, nadv1.NetworkAttachmentAnnot) }},
		"the one address that it can have":                  {change: func(*corev1.Pod) {}, writes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &auditedPool{}
			if tc.entry {
				pool.set(true, entryOfWeb())
			}
			a, _ := repairing(t, pool, tc.change)
			if tc.entry {
				recordOwn(t, a)
			}
			if errs := audits(t, a, 6); len(errs) > 0 {
				t.Fatal(errs)
			}
			if len(pool.wrote) != tc.writes {
				t.Errorf("%d writes: %q; want %d", len(pool.wrote), pool.wrote, tc.writes)
			}
		})
	}
}

// recordOwn puts the entry of the pod into its record, as the controller does.
func recordOwn(t *testing.T, a *auditor) {
	t.Helper()
	var record v1alpha1.IPAllocation
	if err := a.live.Get(t.Context(), client.ObjectKey{Name: "web-uid"}, &record); err != nil {
		t.Fatal(err)
	}
	e := entryOfWeb()
	record.Spec.Addresses = []v1alpha1.AddressRecord{{Backend: e.Backend, Pool: e.Pool, IP: e.IP.String(), Interface: e.Interface, PodRef: e.PodRef, SandboxID: e.SandboxID}}
	if err := a.client.Update(t.Context(), &record); err != nil {
		t.Fatal(err)
	}
}

// To list the address of an orphaned reservation holds it only where an IPAM can have given it.
func TestListingAnOrphansAddressDoesNotHoldIt(t *testing.T) {
	unguarded := func(p *corev1.Pod) *corev1.Pod { p.Finalizers = nil; return p }
	excluded := func(p *corev1.Pod) *corev1.Pod { p.Finalizers, p.Namespace = nil, "trusted"; return p }
	lists := func(p *corev1.Pod) *corev1.Pod { p.Annotations[nadv1.NetworkStatusAnnot] = wholeRange(); return p }
	requestsNothing := func(p *corev1.Pod) *corev1.Pod { delete(p.Annotations, nadv1.NetworkAttachmentAnnot); return p }
	inOtherNamespace := func(p *corev1.Pod) *corev1.Pod {
		p.Annotations[nadv1.NetworkAttachmentAnnot] = "ns/wb"
		return p
	}
	broken := func(p *corev1.Pod) *corev1.Pod { p.Annotations[nadv1.NetworkStatusAnnot] = `["10.0.0.1"`; return p }
	for name, tc := range map[string]struct {
		user  *corev1.Pod
		fails bool
		held  bool
	}{
		"a pod that can have it":                        {user: otherPod("db", "10.0.0.1"), held: true},
		"a pod that lists every address":                {user: lists(otherPod("db", "10.0.0.1"))},
		"a pod that requests no network":                {user: requestsNothing(otherPod("db", "10.0.0.1"))},
		"a pod that is not protected":                   {user: unguarded(otherPod("db", "10.0.0.1"))},
		"an unprotected pod of an excluded namespace":   {user: inOtherNamespace(excluded(otherPod("db", "10.0.0.1"))), held: true},
		"a status that cannot be read":                  {user: broken(otherPod("db", "10.0.0.1"))},
		"a pod that can have it, or not: a failed read": {user: otherPod("db", "10.0.0.1"), fails: true, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &auditedPool{reservations: reserved("ns/gone")}
			a, _ := repairing(t, pool, elsewhere, tc.user)
			a.options.Rules.ExcludedNamespaces = []string{"trusted"}
			if tc.fails {
				a.live = failingNetworks{a.live}
			}
			audits(t, a, 6)
			removed := strings.Contains(strings.Join(pool.wrote, " "), "delete kube-system/10.0.0.1")
			if removed == tc.held {
				t.Errorf("wrote %q; want the reservation held: %t", pool.wrote, tc.held)
			}
		})
	}
}

// failingNetworks cannot read definitions.
type failingNetworks struct{ client.Reader }

func (f failingNetworks) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, is := o.(*nadv1.NetworkAttachmentDefinition); is {
		return errors.New("no")
	}
	return f.Reader.Get(ctx, key, o, options...)
}

// countingLive counts the pods that one audit reads.
type countingLive struct {
	client.Reader
	pods int
}

func (c *countingLive) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, is := o.(*corev1.Pod); is {
		c.pods++
	}
	return c.Reader.Get(ctx, key, o, options...)
}

func TestThePodsThatListAnAddressAreReadUpToABound(t *testing.T) {
	var pods []client.Object
	for i := range 500 {
		pods = append(pods, otherPod(fmt.Sprint("db-", i), "10.0.0.1"))
	}
	pool := &auditedPool{reservations: []ipam.Reservation{{Name: "kube-system/10.0.0.1", PodRef: "ns/gone", Interface: "net1"}}}
	a, _ := repairing(t, pool, elsewhere, pods...)
	live := &countingLive{Reader: a.live}
	a.live = live
	audits(t, a, 2)
	if live.pods > 100 {
		t.Errorf("%d pods were read for one address that 500 pods list", live.pods)
	}
}
