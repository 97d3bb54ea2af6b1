// SPDX-License-Identifier: Apache-2.0

package adversaries_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/standin"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

func (w *world) owns(ip string) bool {
	address, err := netip.ParseAddr(ip)
	return err == nil && slices.ContainsFunc(w.ranges, func(p netip.Prefix) bool { return p.Contains(address) })
}

// shown are the story's addresses in a pod's network-status.
func (w *world) shown(g Gomega, pod *corev1.Pod) []string {
	statuses, err := nadutils.GetNetworkStatus(pod)
	if err != nil { // as when there is none
		return nil
	}
	var addresses []string
	for _, status := range statuses {
		addresses = append(addresses, slices.DeleteFunc(slices.Clone(status.IPs), func(ip string) bool { return !w.owns(ip) })...)
	}
	return addresses
}

// entries are what the story's pools hold: addresses to entries.
func (w *world) entries(ctx context.Context, g Gomega) map[string]wbv1alpha1.IPAllocation {
	var pools wbv1alpha1.IPPoolList
	g.Expect(admin.List(ctx, &pools, client.InNamespace(standin.DefaultWhereaboutsNamespace))).To(Succeed())
	entries := map[string]wbv1alpha1.IPAllocation{}
	for i := range pools.Items {
		prefix, err := netip.ParsePrefix(pools.Items[i].Spec.Range)
		g.Expect(err).NotTo(HaveOccurred())
		if !slices.Contains(w.ranges, prefix) {
			continue
		}
		for offset, entry := range pools.Items[i].Spec.Allocations {
			n, err := strconv.Atoi(offset)
			g.Expect(err).NotTo(HaveOccurred())
			entries[nth(prefix, n).String()] = entry
		}
	}
	return entries
}

// held are the addresses that the pools have under a pod's name, in order.
func (w *world) held(ctx context.Context, g Gomega, pod string) []string {
	var held []string
	for ip, entry := range w.entries(ctx, g) {
		if entry.PodRef == w.namespace+"/"+pod {
			held = append(held, ip)
		}
	}
	slices.Sort(held)
	return held
}

// reservations are those of the story's pods: their names to podrefs.
func (w *world) reservations(ctx context.Context, g Gomega) map[string]string {
	var list wbv1alpha1.OverlappingRangeIPReservationList
	g.Expect(admin.List(ctx, &list, client.InNamespace(standin.DefaultWhereaboutsNamespace))).To(Succeed())
	reservations := map[string]string{}
	for i := range list.Items {
		if podRef := list.Items[i].Spec.PodRef; strings.HasPrefix(podRef, w.namespace+"/") {
			reservations[list.Items[i].Name] = podRef
		}
	}
	return reservations
}

// records are the story's IPAllocations, by name: the pod UIDs, and orphans if there are any.
func (w *world) records(ctx context.Context, g Gomega) map[string]*v1alpha1.IPAllocation {
	var list v1alpha1.IPAllocationList
	g.Expect(admin.List(ctx, &list, client.MatchingFields{"spec.podNamespace": w.namespace})).To(Succeed())
	records := map[string]*v1alpha1.IPAllocation{}
	for i := range list.Items {
		records[list.Items[i].Name] = &list.Items[i]
	}
	return records
}

// sandboxes are those that the story's pods have or had, oldest first.
func (w *world) sandboxes(ctx context.Context, g Gomega) []api.Sandbox {
	all, err := theCluster.StandIn().Sandboxes(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(all, func(s api.Sandbox) bool { return s.PodNamespace != w.namespace })
}

func (w *world) liveSandboxes(ctx context.Context, g Gomega) map[types.UID][]api.Sandbox {
	live := map[types.UID][]api.Sandbox{}
	for _, s := range w.sandboxes(ctx, g) {
		if s.Alive {
			live[types.UID(s.PodUID)] = append(live[types.UID(s.PodUID)], s)
		}
	}
	return live
}

// users are the names of the pods whose sandboxes are alive with the address, in the order of the sandboxes.
func (w *world) users(ctx context.Context, g Gomega, ip string) []string {
	var names []string
	for _, s := range w.sandboxes(ctx, g) {
		if s.Alive && slices.ContainsFunc(s.Addresses, func(a api.Address) bool { return a.IP == ip }) {
			names = append(names, s.PodName)
		}
	}
	return names
}

// events are what happened to the sandboxes of the story's pods, oldest first.
func (w *world) events(ctx context.Context, g Gomega) []api.Event {
	own := map[string]bool{}
	for _, s := range w.sandboxes(ctx, g) {
		own[s.ID] = true
	}
	all, err := theCluster.StandIn().History(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(all, func(e api.Event) bool { return !own[e.SandboxID] })
}

// use is the time in which a sandbox used an address: from its ADD to the end of its process, which comes before its DEL.
type use struct {
	sandbox  api.Sandbox
	from, to time.Time
}

// uses are all uses of each address, in the order of their beginnings, by what the machines saw.
func (w *world) uses(ctx context.Context, g Gomega) map[string][]use {
	events := w.events(ctx, g)
	byID := map[string]api.Sandbox{}
	for _, s := range w.sandboxes(ctx, g) {
		byID[s.ID] = s
	}
	uses := map[string][]use{}
	for _, event := range events {
		if event.Event != api.EventAdd || !w.owns(event.IP) {
			continue
		}
		u := use{sandbox: byID[event.SandboxID], from: event.Time, to: time.Now()}
		if u.sandbox.EndedAt != nil {
			u.to = *u.sandbox.EndedAt
		}
		uses[event.IP] = append(uses[event.IP], u)
	}
	return uses
}

// expectNoDuplicate looks at all that ever ran: no two live sandboxes had one address. There must have been some.
func (w *world) expectNoDuplicate(ctx context.Context) {
	uses := w.uses(ctx, w)
	w.Expect(uses).NotTo(BeEmpty())
	for ip, all := range uses {
		for i, u := range all {
			for _, next := range all[i+1:] {
				w.Expect(next.from).To(BeTemporally(">=", u.to), "%s was used by sandbox %s of %s (UID %s) and by sandbox %s of %s (UID %s) at once",
					ip, u.sandbox.ID, u.sandbox.PodName, u.sandbox.PodUID, next.sandbox.ID, next.sandbox.PodName, next.sandbox.PodUID)
			}
		}
	}
}

// awaitNothingLeft waits until everything that the story's pods had is gone: pods, and so their finalizers, entries,
// tombstones, reservations, records and sandboxes.
func (w *world) awaitNothingLeft(ctx context.Context) {
	w.Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(said(w.pods(ctx, g))).To(BeEmpty())
		g.Expect(w.entries(ctx, g)).To(BeEmpty())
		g.Expect(w.reservations(ctx, g)).To(BeEmpty())
		if theCluster.Manager() != nil {
			g.Expect(w.records(ctx, g)).To(BeEmpty())
		}
		g.Expect(w.liveSandboxes(ctx, g)).To(BeEmpty())
	}).Should(Succeed(), "namespace %s", w.namespace)
}

// said is what pods and the guard say of themselves.
func said(pods map[string]*corev1.Pod) []string {
	var all []string
	for _, p := range pods {
		line := fmt.Sprintf("%s (UID %s, %s, deletion %v, finalizers %v)", p.Name, p.UID, p.Status.Phase, p.DeletionTimestamp, p.Finalizers)
		for _, c := range p.Status.Conditions {
			if c.Type == v1alpha1.IPsReleasedCondition {
				line += fmt.Sprintf(": %s: %s", c.Reason, c.Message)
			}
		}
		all = append(all, line)
	}
	return all
}

// expectNoRefusedDEL expects that the guard refused no CNI DEL an entry of a pool, unless it could not tell in time:
// whereabouts tells nobody, but the stand-in machines do. The reservation is refused a DEL whose write of the pool failed.
func (w *world) expectNoRefusedDEL(ctx context.Context) {
	for _, event := range w.events(ctx, w) {
		if event.Event == api.EventDelFailed {
			w.Expect(event.Message).To(Or(Not(ContainSubstring("ippool.release.holdfast.dev")), ContainSubstring("could not be read")))
		}
	}
}

// eventsOf are the messages of events with a reason in the story's namespace.
func (w *world) eventsOf(ctx context.Context, g Gomega, reason string) []string {
	var list corev1.EventList
	g.Expect(admin.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var messages []string
	for i := range list.Items {
		if list.Items[i].Reason == reason {
			messages = append(messages, list.Items[i].InvolvedObject.Name+": "+list.Items[i].Message)
		}
	}
	return messages
}

// ledger is what the manager has counted, by metric and labels. It starts anew with the manager.
type ledger map[string]float64

// The metrics that are looked at.
const (
	releases       = "holdfast_releases_total"
	unsafeReleases = "holdfast_unsafe_releases_total"
	unclassified   = "holdfast_unclassified_total"
)

func readLedger(ctx context.Context, g Gomega) ledger {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, metricsURL, nil)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	g.Expect(response).To(HaveHTTPStatus(http.StatusOK))
	l := ledger{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		series, value, _ := strings.Cut(lines.Text(), " ")
		name, _, _ := strings.Cut(series, "{")
		if !slices.Contains([]string{releases, unsafeReleases, unclassified}, name) {
			continue
		}
		l[series], err = strconv.ParseFloat(value, 64)
		g.Expect(err).NotTo(HaveOccurred())
	}
	return l
}

// since is how much a metric, with all of these label values, has grown since an earlier reading.
func (l ledger) since(before ledger, metric string, values ...string) (n float64) {
	for series, value := range l {
		name, labels, _ := strings.Cut(series, "{")
		if name == metric && !slices.ContainsFunc(values, func(v string) bool { return !strings.Contains(labels, `"`+v+`"`) }) {
			n += value - before[series]
		}
	}
	return n
}
