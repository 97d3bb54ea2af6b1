// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/exempt"
	"github.com/holdfast-dev/holdfast/internal/claim"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// usedElsewhere fills in, for each view, which pod or record may use its addresses. It is the last read before a release.
func (r *Reconciler) usedElsewhere(ctx context.Context, views []*view) error {
	users, err := r.cachedUsers(ctx, views)
	if err != nil {
		return err
	}
	for _, v := range views {
		v.facts.Rival = r.rivalOf(ctx, v)
		v.facts.Shown = r.shownBy(ctx, v, users)
	}
	return nil
}

// cachedUsers are the guarded pods whose network-status, in the cache, mentions an address of the views.
func (r *Reconciler) cachedUsers(ctx context.Context, views []*view) ([]types.NamespacedName, error) {
	var texts []string
	for _, v := range views {
		for i := range v.entries {
			texts = append(texts, v.entries[i].IP.String())
		}
	}
	if len(texts) == 0 {
		return nil, nil
	}
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("looking for pods that show an address without an owner: %w", err)
	}
	var users []types.NamespacedName
	for i := range pods.Items {
		status := pods.Items[i].Annotations[nadv1.NetworkStatusAnnot]
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(status, text) }) {
			users = append(users, client.ObjectKeyFromObject(&pods.Items[i]))
		}
	}
	return users, nil
}

// shownBy reads the pods that may show an address live: the one of the entry's name, and those that show it in the cache. A pod of the entry's
// name that shows nothing yet may be given this address: an IPAM gives the entry of a name to the next pod with that name.
func (r *Reconciler) shownBy(ctx context.Context, v *view, users []types.NamespacedName) release.Fact[string] {
	for i := range v.entries {
		e := &v.entries[i]
		named := v.podName(e)
		if named.Name != "" {
			if fact := r.shownByNamed(ctx, named, e); !fact.IsAbsent() {
				return fact
			}
		}
		for _, name := range users {
			if fact := r.showsLive(ctx, name, e); name != named && !fact.IsAbsent() {
				return fact
			}
		}
	}
	return release.Absent[string]()
}

// podName is the pod that an entry names, or named before its release began.
func (v *view) podName(e *ipam.Entry) types.NamespacedName {
	if e.Owner != nil {
		return types.NamespacedName(*e.Owner)
	}
	if v.record != nil {
		return types.NamespacedName{Namespace: v.record.Spec.PodNamespace, Name: v.record.Spec.PodName}
	}
	return types.NamespacedName{}
}

// shownByNamed says whether the pod of the entry's name shows the address, or may be given it.
func (r *Reconciler) shownByNamed(ctx context.Context, name types.NamespacedName, e *ipam.Entry) release.Fact[string] {
	pod, err := r.podLive(ctx, name)
	if err != nil {
		return release.Unknown[string](err.Error())
	}
	mayInherit := r.mayInherit(pod, e)
	if pod == nil || r.isOver(pod) {
		return release.Absent[string]()
	}
	shows := mayShow(pod, e)
	if mayBeGiven := mayInherit && len(facts.Shown(pod)) == 0 && pod.Spec.NodeName != "" && !pod.Spec.HostNetwork; !shows && !mayBeGiven {
		return release.Absent[string]()
	}
	switch has, err := r.hasOwn(ctx, pod, e); {
	case err != nil:
		return release.Unknown[string](err.Error())
	case has:
		return release.Absent[string]()
	case shows:
		return release.Known(describe(pod))
	}
	return release.Unknown[string](fmt.Sprintf("pod %s (uid %s) shows no address yet, and may be given this one; if it cannot start, delete it", name, pod.UID))
}

// mayInherit says whether the pod of the entry's name, read after the entry, may have been given it; pod is nil if there is none.
func (r *Reconciler) mayInherit(pod *corev1.Pod, e *ipam.Entry) bool {
	if e.Releasing == "" {
		r.heirs.forget(sandboxID(e.SandboxID))
		return true
	}
	return r.heirs.isFirst(e.Key, pod)
}

// hasOwn says whether the pod's record has another address for the interface of an entry with a tombstone: an IPAM gives one for each interface.
func (r *Reconciler) hasOwn(ctx context.Context, pod *corev1.Pod, e *ipam.Entry) (bool, error) {
	if e.Releasing == "" || e.Interface == "" {
		return false, nil
	}
	var record v1alpha1.IPAllocation
	if err := r.live.Get(ctx, types.NamespacedName{Name: string(pod.UID)}, &record); served.IsAbsent(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("reading the record of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return slices.ContainsFunc(record.Spec.Addresses, func(a v1alpha1.AddressRecord) bool {
		return a.Backend == e.Backend && a.Pool == e.Pool && a.Interface == e.Interface && a.IP != e.IP.String()
	}), nil
}

// mayShow says whether a pod's network-status shows the address, or cannot be read as a whole.
func mayShow(pod *corev1.Pod, e *ipam.Entry) bool {
	_, unread := podnetwork.StatusAddresses(pod.Annotations)
	return unread != nil || ownership.ShownBy(facts.Shown(pod), ownership.Entry{IP: e.IP, Interface: e.Interface})
}

// showsLive says whether a pod of another name shows the address, and that counts: what can be read of its network-status is a claim.
func (r *Reconciler) showsLive(ctx context.Context, name types.NamespacedName, e *ipam.Entry) release.Fact[string] {
	pod, err := r.podLive(ctx, name)
	switch {
	case err != nil:
		return release.Unknown[string](err.Error())
	case pod == nil || r.isOver(pod) || !mayShow(pod, e):
		return release.Absent[string]()
	}
	switch counts, err := r.claims(ctx, pod, e); {
	case err != nil:
		return release.Unknown[string](err.Error())
	case !counts:
		return release.Absent[string]()
	}
	return release.Known(describe(pod))
}

// podLive reads a pod past the cache; nil if there is none.
func (r *Reconciler) podLive(ctx context.Context, name types.NamespacedName) (*corev1.Pod, error) {
	var pod corev1.Pod
	if err := r.live.Get(ctx, name, &pod); served.IsAbsent(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", name, err)
	}
	return &pod, nil
}

func describe(pod *corev1.Pod) string {
	return fmt.Sprintf("%s/%s (uid %s)", pod.Namespace, pod.Name, pod.UID)
}

// heirs are the pods that may have been given an address with a tombstone. An IPAM gives an entry to a pod of its name, which a tombstone replaces:
// a pod that was created after a tombstone was read live cannot inherit the entry (docs/decisions/0289).
type heirs struct {
	mu sync.Mutex
	// first is the UID of the pod that had the name when the tombstone was first read; empty if none had.
	first map[ipam.Key]types.UID
}

// isFirst says whether the pod, read after the tombstone, may have existed before it. pod is nil if there is none.
func (h *heirs) isFirst(tombstone ipam.Key, pod *corev1.Pod) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	var uid types.UID
	if pod != nil {
		uid = pod.UID
	}
	if first, known := h.first[tombstone]; known {
		return uid == first
	}
	if h.first == nil {
		h.first = map[ipam.Key]types.UID{}
	}
	h.first[tombstone] = uid
	return true
}

// forget drops the heirs of the entries of a sandbox.
func (h *heirs) forget(id sandboxID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.first, func(tombstone ipam.Key, _ types.UID) bool { return tombstone.SandboxID == string(id) })
}

// claims says whether the network-status of a pod of another name counts for the address, since its owner can write any, and other networks may
// have the same address. It counts if the backend cannot list the addresses of a network.
func (r *Reconciler) claims(ctx context.Context, pod *corev1.Pod, e *ipam.Entry) (bool, error) {
	for _, backend := range r.options.Backends {
		if auditable, is := backend.(ipam.Auditable); is && backend.Name() == e.Backend {
			networks := claim.From(r.live, auditable, r.options.Rules)
			counts, err := networks.Claims(ctx, pod, []netip.Addr{e.IP})
			return counts && !networks.UsesElsewhere(ctx, pod, e), err
		}
	}
	return true, nil
}

// isOver says whether the kubelet reported termination of the pod releaseDelay ago: a completed pod keeps showing its addresses and uses none. A
// rejected pod may run, because the kubelet stopped nothing.
func (r *Reconciler) isOver(pod *corev1.Pod) bool {
	ending := release.PodEnding(pod)
	terminated := ending == release.EndingCompleted || ending == release.EndingFinished
	return terminated && !r.clock.Now().Before(release.EndWritten(pod).Add(r.options.Settings.ReleaseDelay))
}

// rivalOf looks for records that hold an address for another sandbox, in a cache that is at least as new as the orphan's record.
func (r *Reconciler) rivalOf(ctx context.Context, v *view) release.Fact[string] {
	if v.record == nil {
		return release.Absent[string]()
	}
	var cached v1alpha1.IPAllocation
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(v.record), &cached); err != nil {
		return release.Unknown[string](fmt.Sprintf("the cache of records does not have this one: %v", err))
	}
	if order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, v.record.ResourceVersion); err != nil || order < 0 {
		return release.Unknown[string]("the cache of records is late")
	}
	for i := range v.entries {
		e := &v.entries[i]
		others, err := r.owners.Rivals(ctx, v.record.Name, e.Key)
		switch {
		case err != nil:
			return release.Unknown[string](err.Error())
		case len(others) > 0:
			return release.Known(others[0])
		}
	}
	return release.Absent[string]()
}

// ownerOf is the UID of the record in the entry's tombstone, or of the pod with the entry's name if it owns the entry by the rule of the pod
// controller.
func (r *Reconciler) ownerOf(ctx context.Context, entry *ipam.Entry) (types.UID, bool) {
	if entry.Releasing != "" {
		return types.UID(entry.Releasing), true
	}
	var pod corev1.Pod
	if entry.Owner == nil || r.client.Get(ctx, types.NamespacedName(*entry.Owner), &pod) != nil {
		return "", false
	}
	candidates, err := r.owners.Candidates(ctx, *entry.Owner, r.owners.Candidate(pod.UID, &pod, nil), nil)
	if err != nil {
		return "", false
	}
	_, owns := facts.Attribute(pod.UID, *entry.Owner, nil, entry, candidates)
	return pod.UID, owns
}

// ownedLive says whether a live pod of the name owns an entry, because it shows the address, or is exempt from the guard and shows none yet. Then no
// record is needed. A pod may be missing in the cache.
func (r *Reconciler) ownedLive(ctx context.Context, entries []ipam.Entry) (bool, error) {
	for i := range entries {
		if entries[i].Owner == nil {
			continue
		}
		var pod corev1.Pod
		err := r.live.Get(ctx, types.NamespacedName(*entries[i].Owner), &pod)
		if served.IsAbsent(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("reading pod %s, which may own an entry: %w", entries[i].Owner, err)
		}
		isExempt, err := exempt.Pod(ctx, r.live, r.options.Rules, &pod)
		if err != nil {
			return false, err
		}
		shown := facts.Shown(&pod)
		mayGet := isExempt && len(shown) == 0 && !pod.Spec.HostNetwork
		if !r.isOver(&pod) && (mayGet || ownership.ShownBy(shown, ownership.Entry{IP: entries[i].IP, Interface: entries[i].Interface})) {
			return true, nil
		}
	}
	return false, nil
}
