// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/releaseguard"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// writer identifies the client by its token. What is not in the token is Absent, and not trusted.
func (g *releaseGuard) writer(ctx context.Context, user *authenticationv1.UserInfo) releaseguard.Writer {
	w := releaseguard.Writer{
		User:         user.Username,
		Manager:      user.Username == g.options.ManagerUser,
		CNIUser:      slices.Contains(g.options.CNIUsers, user.Username),
		DaemonSetPod: release.Absent[releaseguard.DaemonSetPod](),
	}
	if !w.Manager && !w.CNIUser {
		w.DaemonSetPod = g.daemonSetPod(ctx, user)
	}
	return w
}

// daemonSetPod reads, live, the pod to which a token is bound, and whether a trusted DaemonSet controls it. What was proven of a pod UID
// is not read again: its node never changes, its controller only where a user orphans it, its images only where a user sets
// them by hand, and the API server refuses the token
// of a deleted pod once its cache of tokens forgets it (10 s). So an API server that is slow does not have a node's CNI DEL
// wait for the same two reads each time, until it is refused as undecidable. Everything about the entry's pod and Node is read live.
func (g *releaseGuard) daemonSetPod(ctx context.Context, user *authenticationv1.UserInfo) release.Fact[releaseguard.DaemonSetPod] {
	bound, isBound := boundPodOf(user)
	if !isBound || !g.trusts(bound.Namespace) {
		return release.Absent[releaseguard.DaemonSetPod]()
	}
	if proven, known := g.proven.Get(bound); known {
		return release.Known(proven.(releaseguard.DaemonSetPod))
	}
	fact := g.prove(ctx, bound)
	if fact.IsKnown() {
		g.proven.Add(bound, fact.Get())
	}
	return fact
}

// reconcilerShared reports whether the IPAM's reconciler may write with the writer's token: by the configuration, or else by the images
// of the writer's pod. An unknown version counts as shared.
func (g *releaseGuard) reconcilerShared(w releaseguard.Writer) bool {
	if g.options.ReconcilerInDaemonSet != nil {
		return *g.options.ReconcilerInDaemonSet
	}
	if w.CNIUser { // no other client has a certificate; the account of a pod may be the reconciler's
		return strings.HasPrefix(w.User, serviceaccount.ServiceAccountUsernamePrefix)
	}
	return !w.DaemonSetPod.IsKnown() || w.DaemonSetPod.Get().ReconcilerShared
}

// imagesOf are the images of a pod's containers.
func imagesOf(pod *corev1.Pod) []string {
	images := make([]string, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		images = append(images, pod.Spec.Containers[i].Image)
	}
	return images
}

func (g *releaseGuard) prove(ctx context.Context, bound boundPod) release.Fact[releaseguard.DaemonSetPod] {
	absent := release.Absent[releaseguard.DaemonSetPod]()
	pod := readLive[corev1.Pod](ctx, g.reader, bound.NamespacedName)
	switch {
	case pod.IsUnknown():
		return release.Unknown[releaseguard.DaemonSetPod](pod.Why())
	case pod.IsAbsent() || pod.Get().UID != bound.uid || pod.Get().Spec.NodeName != bound.node:
		return absent
	}
	owner := metav1.GetControllerOf(new(pod.Get()))
	if owner == nil || !g.isTrustedDaemonSet(bound.Namespace, owner) {
		return absent
	}
	daemonSet := readLive[appsv1.DaemonSet](ctx, g.reader, client.ObjectKey{Namespace: bound.Namespace, Name: owner.Name})
	switch {
	case daemonSet.IsUnknown():
		return release.Unknown[releaseguard.DaemonSetPod](daemonSet.Why())
	case daemonSet.IsAbsent() || daemonSet.Get().UID != owner.UID:
		return absent
	default:
		return release.Known(releaseguard.DaemonSetPod{Name: bound.String(), NodeName: bound.node,
			ReconcilerShared: g.options.Backend.ReconcilerShared(imagesOf(new(pod.Get())))})
	}
}

// boundPod is the pod that a token names, and the node on which it was when the token was made.
type boundPod struct {
	types.NamespacedName
	uid  types.UID
	node string
}

// boundPodOf is false for a user without a token of a pod on a node.
func boundPodOf(user *authenticationv1.UserInfo) (boundPod, bool) {
	account, isServiceAccount := strings.CutPrefix(user.Username, serviceaccount.ServiceAccountUsernamePrefix)
	namespace, _, _ := strings.Cut(account, ":")
	pod := boundPod{
		NamespacedName: types.NamespacedName{Namespace: namespace, Name: extra(user, serviceaccount.PodNameKey)},
		uid:            types.UID(extra(user, serviceaccount.PodUIDKey)), node: extra(user, serviceaccount.NodeNameKey),
	}
	return pod, isServiceAccount && pod.Name != "" && pod.uid != "" && pod.node != ""
}

func (g *releaseGuard) isTrustedDaemonSet(namespace string, owner *metav1.OwnerReference) bool {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == appsv1.GroupName && owner.Kind == "DaemonSet" &&
		slices.Contains(g.options.DaemonSets, types.NamespacedName{Namespace: namespace, Name: owner.Name})
}

func (g *releaseGuard) trusts(namespace string) bool {
	return slices.ContainsFunc(g.options.DaemonSets, func(d types.NamespacedName) bool { return d.Namespace == namespace })
}

func extra(user *authenticationv1.UserInfo, key string) string {
	if values := user.Extra[key]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// reportsSince is from when on a kubelet's report is only the kubelet's; zero where it is not, or where that is unknown.
func (g *releaseGuard) reportsSince(ctx context.Context) time.Time {
	if g.options.Evidence != release.EvidenceAgent {
		return time.Time{}
	}
	since, err := g.options.PoliciesSince(ctx)
	if err != nil {
		return time.Time{}
	}
	return since
}

// podFact is what the judgement needs of a pod. A report of termination counts as it does for the controllers.
func (g *releaseGuard) podFact(ctx context.Context, pod release.Fact[corev1.Pod]) release.Fact[releaseguard.Pod] {
	return release.Convert(pod, func(p corev1.Pod) releaseguard.Pod {
		return releaseguard.Pod{
			UID:      p.UID,
			NodeName: p.Spec.NodeName,
			Deleting: p.DeletionTimestamp != nil,
			Held:     controllerutil.ContainsFinalizer(&p, v1alpha1.Finalizer),
			Ending:   g.options.Evidence.Ending(&p, false, g.reportsSince(ctx)),
			Begun:    release.Begun(&p),
		}
	})
}

// recordsOf are the records of a pod's name: of every UID that had it, and of orphans. They show a rival, another UID's record of the same address.
//
// A live list makes the API server read all records. It is not needed where the pod lives, its record holds what is removed, and the cache has that
// record, as new as a live read shows it, and no other of the name: one watch brings all records in the order of their versions, and a rival is older
// than the record of the address's next user (docs/decisions/0282).
func (g *releaseGuard) recordsOf(ctx context.Context, ref ipam.PodRef, pod release.Fact[corev1.Pod], holds func(*v1alpha1.IPAllocation) bool) release.Fact[[]v1alpha1.IPAllocation] {
	if pod.IsKnown() && g.options.CachedRecords != nil {
		own := g.recordNamed(ctx, string(pod.Get().UID))
		if own.IsKnown() && holds(&own.Get()[0]) && g.isAlone(ctx, ref, &own.Get()[0]) {
			return own
		}
	}
	list := &v1alpha1.IPAllocationList{}
	err := g.reader.List(ctx, list, client.MatchingFields{"spec.podNamespace": ref.Namespace, "spec.podName": ref.Name})
	return release.FactOf(list.Items, err)
}

// isAlone reports whether a cache that is as new as a record shows no other record of the pod's name.
func (g *releaseGuard) isAlone(ctx context.Context, ref ipam.PodRef, own *v1alpha1.IPAllocation) bool {
	cached, err := g.options.CachedRecords(ctx, ref)
	if err != nil || len(cached) != 1 || cached[0].UID != own.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(cached[0].ResourceVersion, own.ResourceVersion)
	return err == nil && order >= 0
}

// recordNamed reads one record, live.
func (g *releaseGuard) recordNamed(ctx context.Context, name string) release.Fact[[]v1alpha1.IPAllocation] {
	record := readLive[v1alpha1.IPAllocation](ctx, g.reader, client.ObjectKey{Name: name})
	return release.Convert(record, func(r v1alpha1.IPAllocation) []v1alpha1.IPAllocation { return []v1alpha1.IPAllocation{r} })
}

func (g *releaseGuard) node(ctx context.Context, name string) release.Fact[release.Node] {
	node := readLive[corev1.Node](ctx, g.reader, client.ObjectKey{Name: name})
	return release.Convert(node, func(n corev1.Node) release.Node { return facts.Node(&n) })
}

// sideBySide makes reads at the same time, and returns when all are done; one that failed has left an unknown fact. A panic becomes the
// caller's, whose handler turns it into an HTTP 503.
func sideBySide(reads ...func()) {
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	panics := make(chan any, len(reads))
	for _, read := range reads {
		group.Go(func() error {
			defer func() {
				if p := recover(); p != nil {
					panics <- p
				}
			}()
			read()
			return nil
		})
	}
	_ = group.Wait() // no read returns an error
	select {
	case p := <-panics:
		panic(p)
	default:
	}
}

// readLive reads one object past every cache. Only the API server's own "not found" is an absence.
func readLive[T any, P interface {
	*T
	client.Object
}](ctx context.Context, reader client.Reader, key client.ObjectKey) release.Fact[T] {
	object := new(T)
	err := reader.Get(ctx, key, P(object))
	switch {
	case err == nil:
		return release.Known(*object)
	case served.IsAbsent(err):
		return release.Absent[T]()
	default:
		return release.Unknown[T](err.Error())
	}
}
