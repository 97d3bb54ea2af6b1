// SPDX-License-Identifier: Apache-2.0

// Package shapes_test takes every shape that a whereabouts network can have through whereabouts' own code, on the API server in memory: the
// allocator of v0.9.4, and the CNI programs of older versions as they were released, each with its own definitions. For every shape, Holdfast's webhook protects the pod, its
// backend reads just the addresses that the pod was given, admission reads CNI DEL as the removal of just these, and a release gives them back
// with their reservations and touches no other pod's.
package shapes_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/webhooks"
)

// version is a minor version of whereabouts. One without a module file is the one that this module requires; its allocator runs in the process.
type version struct {
	minor, modfile string
	// What it does not have.
	noSlices, noNames, noInterfaces bool
}

var versions = []version{
	{minor: "0.6", modfile: "go-0.6.mod", noSlices: true, noNames: true, noInterfaces: true},
	{minor: "0.7", modfile: "go-0.7.mod", noSlices: true, noInterfaces: true},
	{minor: "0.8", modfile: "go-0.8.mod", noSlices: true},
	{minor: "0.9"},
}

// chosen are the versions of the minors that the variable of the environment names: all without it. make matrix sets it.
func chosen(t *testing.T) []version {
	t.Helper()
	only := os.Getenv("WHEREABOUTS")
	some := slices.DeleteFunc(slices.Clone(versions), func(v version) bool { return only != "" && v.minor != only })
	if len(some) == 0 {
		t.Fatalf("WHEREABOUTS is %q: expected one of %v", only, versions)
	}
	return some
}

func TestEveryShapeOfWhereabouts(t *testing.T) {
	for _, v := range chosen(t) {
		t.Run("whereabouts "+v.minor, func(t *testing.T) {
			w := newWorld(t, v)
			others, leftOut := map[string][]ipam.Key{}, 0
			for _, s := range shapes {
				if v.noSlices && s.divided != "" {
					leftOut++
					continue
				}
				known := s.knownTo(v)
				t.Run("a pod with "+s.name, func(t *testing.T) { others[s.id] = w.play(t, known) })
			}
			if wide, narrow := others["wide"], others["narrow"]; len(wide) == 1 && len(narrow) == 1 && wide[0].IP == narrow[0].IP {
				t.Errorf("two pods have %s, one of each overlapping range", wide[0].IP)
			}
			if leftOut > 0 {
				// hack/gotest counts them.
				fmt.Printf("==> left out: %d specs, because whereabouts %s has no node slices\n", leftOut, v.minor)
			}
		})
	}
}

// knownTo is the shape as a version records it.
func (s *shape) knownTo(v version) *shape {
	known := *s
	known.holds = slices.Clone(s.holds)
	for i := range known.holds {
		if v.noNames {
			known.holds[i].network = ""
		}
		if v.noInterfaces {
			known.holds[i].iface = ""
		}
	}
	return &known
}

// play has a pod of a shape get its addresses twice: they go by CNI DEL, then by a release. Another pod keeps its own, which are returned.
func (w *world) play(t *testing.T, s *shape) []ipam.Key {
	w.define(t, s)
	w.expectProtected(t, s)
	other := s.pod("other")
	w.add(t, s, other, "sandbox-other")
	kept := w.expectHeld(t, s, other, "sandbox-other")

	pod := s.pod("web")
	w.add(t, s, pod, "sandbox-1")
	held := w.expectHeld(t, s, pod, "sandbox-1")
	w.removals = nil
	if err := w.del(t, s, pod, "sandbox-1"); err != nil && !s.quirky {
		t.Errorf("CNI DEL: %v", err)
	}
	if diff := cmp.Diff(held, w.removals, compareKeys...); diff != "" {
		t.Errorf("what admission reads of CNI DEL (-want +got):\n%s", diff)
	}
	w.expectNothing(t, pod)

	w.add(t, s, pod, "sandbox-2")
	held = w.expectHeld(t, s, pod, "sandbox-2")
	requests := make([]ipam.Request, 0, len(held))
	for _, key := range held {
		requests = append(requests, ipam.Request{Key: key, Record: "record-of-" + s.id})
	}
	for _, result := range w.backend(t).Release(t.Context(), requests) {
		if result.Err != nil {
			t.Errorf("releasing %s: %v", result.Request.Key, result.Err)
		}
	}
	w.expectNothing(t, pod)
	if diff := cmp.Diff(kept, w.expectHeld(t, s, other, "sandbox-other"), compareKeys...); diff != "" {
		t.Errorf("the other pod's addresses (-before +after):\n%s", diff)
	}
	return kept
}

var compareKeys = []cmp.Option{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmpopts.EquateEmpty(),
	cmpopts.SortSlices(func(a, b ipam.Key) bool { return a.String()+a.Interface < b.String()+b.Interface }),
}

// expectProtected has the webhook see the creation of a pod of the shape.
func (w *world) expectProtected(t *testing.T, s *shape) {
	t.Helper()
	raw, err := json.Marshal(s.pod("web"))
	if err != nil {
		t.Fatal(err)
	}
	defaulter, err := webhooks.NewPodDefaulter(webhooks.PodOptions{Manages: w.backend(t).Manages, Reader: w.admin})
	if err != nil {
		t.Fatal(err)
	}
	response := defaulter.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: namespace, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object: runtime.RawExtension{Raw: raw},
	}})
	if !response.Allowed {
		t.Fatalf("the webhook refuses the pod: %v", response.Result)
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		t.Fatalf("decoding the patch %q: %v", response.Patch, err)
	}
	if raw, err = patch.Apply(raw); err != nil {
		t.Fatalf("applying the patch %s: %v", response.Patch, err)
	}
	protected := new(corev1.Pod)
	if err := json.Unmarshal(raw, protected); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(protected.Finalizers, v1alpha1.Finalizer) {
		t.Errorf("the webhook leaves the pod with the finalizers %q", protected.Finalizers)
	}
}

// backend is Holdfast's, with what the pools hold now.
func (w *world) backend(t *testing.T) ipam.Auditable {
	t.Helper()
	b, err := whereabouts.OpenDirect(t.Context(), w.admin, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// expectHeld expects that the backend, from its cache and live, finds just one address for each holding of the shape, and that each has its
// reservation.
func (w *world) expectHeld(t *testing.T, s *shape, pod *corev1.Pod, sandbox string) []ipam.Key {
	t.Helper()
	found := w.find(t, pod)
	rest := slices.Clone(found)
	var want []ipam.Key
	var reservations []string
	for _, h := range s.holds {
		pool, within := h.find(s)
		i := slices.IndexFunc(rest, func(k ipam.Key) bool { return k.Pool == pool && k.Interface == h.iface && within.Contains(k.IP) })
		if i < 0 {
			t.Fatalf("no address in %s of pool %s on %s: %v", within, pool, h.iface, found)
		}
		want = append(want, ipam.Key{Backend: whereabouts.Name, Pool: pool, IP: rest[i].IP, SandboxID: sandbox, PodRef: podRef(pod), Interface: h.iface})
		reservation := h.inNamespace() + "/" + wbkubernetes.NormalizeIP(net.IP(rest[i].IP.AsSlice()), h.network)
		if !h.unreserved && !slices.Contains(reservations, reservation) {
			reservations = append(reservations, reservation)
		}
		rest = slices.Delete(rest, i, i+1)
	}
	if diff := cmp.Diff(want, found, compareKeys...); diff != "" {
		t.Errorf("addresses of %s (-want +got):\n%s", podRef(pod), diff)
	}
	slices.Sort(reservations)
	if diff := cmp.Diff(reservations, w.reservations(t, pod), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("reservations of %s (-want +got):\n%s", podRef(pod), diff)
	}
	return want
}

// expectNothing expects that no pool and no reservation names the pod, or the record that released its addresses.
func (w *world) expectNothing(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if left := w.find(t, pod); len(left) > 0 {
		t.Errorf("%s still holds %v", podRef(pod), left)
	}
	if left := w.reservations(t, pod); len(left) > 0 {
		t.Errorf("%s still has the reservations %v", podRef(pod), left)
	}
	for _, entry := range w.backend(t).All().Entries {
		if entry.Releasing != "" {
			t.Errorf("a tombstone is left: %s", entry.Key)
		}
	}
}

// find is what the backend reads of a pod, live and from its cache, which have to agree.
func (w *world) find(t *testing.T, pod *corev1.Pod) []ipam.Key {
	t.Helper()
	b, query := w.backend(t), ipam.Query{Pod: ipam.PodRef{Namespace: pod.Namespace, Name: pod.Name}}
	live, err := b.Live(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	cached := b.Find(query)
	if problems := slices.Concat(live.Problems, cached.Problems); len(problems) > 0 {
		t.Errorf("problems: %+v", problems)
	}
	if diff := cmp.Diff(keysOf(cached), keysOf(live), compareKeys...); diff != "" {
		t.Errorf("live reads and the cache differ (-cache +live):\n%s", diff)
	}
	return keysOf(live)
}

func keysOf(s ipam.Snapshot) []ipam.Key {
	var keys []ipam.Key
	for i := range s.Entries {
		keys = append(keys, s.Entries[i].Key)
	}
	return keys
}

func (w *world) reservations(t *testing.T, pod *corev1.Pod) []string {
	t.Helper()
	var list wbv1alpha1.OverlappingRangeIPReservationList
	if err := w.admin.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if r := &list.Items[i]; strings.HasSuffix(r.Spec.PodRef, podRef(pod)) {
			names = append(names, r.Namespace+"/"+r.Name)
		}
	}
	slices.Sort(names)
	return names
}
