// SPDX-License-Identifier: Apache-2.0

package guarded_test

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

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/standin"
	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

// addressesOf are what the pod's network-status shows on networks of the spec.
func (w *world) addressesOf(g Gomega, pod *corev1.Pod) []string {
	statuses, err := nadutils.GetNetworkStatus(pod)
	g.Expect(err).NotTo(HaveOccurred())
	var addresses []string
	for _, status := range statuses {
		for _, ip := range status.IPs {
			if w.owns(ip) {
				addresses = append(addresses, ip)
			}
		}
	}
	return addresses
}

func (w *world) owns(ip string) bool {
	address, err := netip.ParseAddr(ip)
	return err == nil && slices.ContainsFunc(w.ranges, func(p netip.Prefix) bool { return p.Contains(address) })
}

// entries are what the spec's pools hold: addresses to entries.
func (w *world) entries(ctx context.Context, g Gomega) map[string]wbv1alpha1.IPAllocation {
	var pools wbv1alpha1.IPPoolList
	g.Expect(admin.List(ctx, &pools, client.InNamespace(standin.DefaultWhereaboutsNamespace))).To(Succeed())
	entries := map[string]wbv1alpha1.IPAllocation{}
	for i := range pools.Items {
		prefix, err := netip.ParsePrefix(pools.Items[i].Spec.Range)
		g.Expect(err).NotTo(HaveOccurred())
		for offset, entry := range pools.Items[i].Spec.Allocations {
			n, err := strconv.Atoi(offset)
			g.Expect(err).NotTo(HaveOccurred())
			if ip := nth(prefix, n).String(); w.owns(ip) {
				entries[ip] = entry
			}
		}
	}
	return entries
}

// reservations are those of the spec's pods, by name.
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

// records are the IPAllocations of the spec's pods, by name: the pod UIDs, and orphans if there are any.
func (w *world) records(ctx context.Context, g Gomega) map[string]*v1alpha1.IPAllocation {
	var list v1alpha1.IPAllocationList
	g.Expect(admin.List(ctx, &list, client.MatchingFields{"spec.podNamespace": w.namespace})).To(Succeed())
	records := map[string]*v1alpha1.IPAllocation{}
	for i := range list.Items {
		records[list.Items[i].Name] = &list.Items[i]
	}
	return records
}

// sandboxes are those that the spec's pods have or had, oldest first.
func (w *world) sandboxes(ctx context.Context, g Gomega) []api.Sandbox {
	all, err := theCluster.StandIn().Sandboxes(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(all, func(s api.Sandbox) bool { return s.PodNamespace != w.namespace })
}

// sandboxOf is the READY sandbox of a pod; empty when there is none.
func (w *world) sandboxOf(ctx context.Context, g Gomega, uid types.UID) (id string) {
	for _, s := range w.sandboxes(ctx, g) {
		if s.PodUID == string(uid) && s.State == api.StateReady {
			g.Expect(id).To(BeEmpty(), "a second sandbox of pod UID %s is READY", uid)
			id = s.ID
		}
	}
	return id
}

// awaitServed waits until the pod runs, has an address of every network that it names, and pools and record show them
// under its one live sandbox.
func (w *world) awaitServed(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	networks := len(strings.Split(pod.Annotations[nadv1.NetworkAttachmentAnnot], ","))
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		now := live(ctx, g, pod)
		g.Expect(now.Status.Phase).To(Equal(corev1.PodRunning))
		addresses := w.addressesOf(g, now)
		g.Expect(addresses).To(HaveLen(networks))
		sandbox := w.sandboxOf(ctx, g, pod.UID)
		entries := w.entries(ctx, g)
		record := w.records(ctx, g)[string(pod.UID)]
		g.Expect(record).NotTo(BeNil(), "no IPAllocation %s", pod.UID)
		g.Expect(record.Spec.Addresses).To(HaveLen(networks))
		for _, ip := range addresses {
			g.Expect(entries).To(HaveKeyWithValue(ip, And(HaveField("ContainerID", sandbox), HaveField("PodRef", w.namespace+"/"+pod.Name))))
			g.Expect(record.Spec.Addresses).To(ContainElement(And(HaveField("IP", ip), HaveField("SandboxID", sandbox))))
		}
	}).Should(Succeed(), "pod %s (UID %s)", pod.Name, pod.UID)
}

// expectNothingLeft waits until everything that the spec's pods had is gone, and expects that no address was ever used twice.
func (w *world) expectNothingLeft(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(w.pods(ctx, g)).To(BeEmpty())
		g.Expect(w.entries(ctx, g)).To(BeEmpty())
		g.Expect(w.reservations(ctx, g)).To(BeEmpty())
		g.Expect(w.records(ctx, g)).To(BeEmpty())
		g.Expect(w.sandboxes(ctx, g)).NotTo(ContainElement(HaveField("Alive", true)))
	}).Should(Succeed())
	w.expectNoDuplicate(ctx)
}

// use is the time in which a sandbox used an address: from its ADD to the end of its process, which comes before its DEL.
type use struct {
	sandbox  api.Sandbox
	from, to time.Time
}

// expectNoDuplicate looks at all that ever ran: no two live sandboxes had one address.
func (w *world) expectNoDuplicate(ctx context.Context) {
	GinkgoHelper()
	sandboxes := w.sandboxes(ctx, Default)
	history, err := theCluster.StandIn().History(ctx)
	Expect(err).NotTo(HaveOccurred())
	uses := map[string][]use{}
	for _, event := range history {
		i := slices.IndexFunc(sandboxes, func(s api.Sandbox) bool { return s.ID == event.SandboxID })
		if i < 0 || event.Event != api.EventAdd || !w.owns(event.IP) {
			continue
		}
		u := use{sandbox: sandboxes[i], from: event.Time, to: time.Now()}
		if ended := sandboxes[i].EndedAt; ended != nil {
			u.to = *ended
		}
		uses[event.IP] = append(uses[event.IP], u)
	}
	for ip, all := range uses {
		for i := range all[1:] { // in the order of their ADDs
			Expect(all[i+1].from).To(BeTemporally(">=", all[i].to), "%s was used by sandbox %s of %s (UID %s) and by sandbox %s of %s (UID %s) at once",
				ip, all[i].sandbox.ID, all[i].sandbox.PodName, all[i].sandbox.PodUID,
				all[i+1].sandbox.ID, all[i+1].sandbox.PodName, all[i+1].sandbox.PodUID)
		}
	}
}

// eventsOf are the kinds of what happened to a pod's sandboxes.
func eventsOf(ctx context.Context, g Gomega, uid types.UID) []string {
	history, err := theCluster.StandIn().History(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	var kinds []string
	for _, event := range history {
		if event.PodUID == string(uid) {
			kinds = append(kinds, event.Event)
		}
	}
	return kinds
}

// expectEveryDELPassed expects that no CNI DEL of the spec's pods failed, not even in the silent way that whereabouts has.
func (w *world) expectEveryDELPassed(ctx context.Context) {
	GinkgoHelper()
	for _, s := range w.sandboxes(ctx, Default) {
		Expect(eventsOf(ctx, Default, types.UID(s.PodUID))).NotTo(ContainElement(api.EventDelFailed), "pod %s (UID %s)", s.PodName, s.PodUID)
	}
}

// refusals are the events that tell about removals which were refused.
func (w *world) refusals(ctx context.Context, g Gomega) []corev1.Event {
	var list corev1.EventList
	g.Expect(admin.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	return slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return e.Reason != string(v1alpha1.ReasonUnsafeReleaseRefused) })
}

// ledger is what the manager's webhooks answered about removals: how often, by the labels of the metric.
type ledger map[string]float64

const unsafeReleases = "holdfast_unsafe_releases_total"

// readLedger reads the manager's metrics. They start anew with the manager.
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
		labels, value, found := strings.Cut(strings.TrimPrefix(lines.Text(), unsafeReleases), " ")
		if !strings.HasPrefix(lines.Text(), unsafeReleases) || !found {
			continue
		}
		l[labels], err = strconv.ParseFloat(value, 64)
		Expect(err).NotTo(HaveOccurred())
	}
	return l
}

// since counts the answers with all of these labels that were given after an earlier reading.
func (l ledger) since(before ledger, labels map[string]string) (n float64) {
	for series, value := range l {
		matches := true
		for name, value := range labels {
			matches = matches && strings.Contains(series, fmt.Sprintf("%s=%q", name, value))
		}
		if matches {
			n += value - before[series]
		}
	}
	return n
}

// expectOnlyPermits expects that the webhooks were asked about CNI DELs since an earlier reading, and refused nothing.
func (w *world) expectOnlyPermits(ctx context.Context, before ledger) {
	GinkgoHelper()
	now := readLedger(ctx)
	Expect(now.since(before, map[string]string{"decision": "refused"})).To(BeZero(), "%v", now)
	Expect(now.since(before, map[string]string{"decision": "allowed", "resource": "ippools", "reason": string(v1alpha1.ReasonCNIDelete)})).
		To(BeNumerically(">", 0), "%v", now)
	Expect(w.refusals(ctx, Default)).To(BeEmpty())
	w.expectEveryDELPassed(ctx)
}
