// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
)

const (
	actionSweep  = "SweepNodeResources"
	actionDelete = "DeleteStaleNodeObject"
)

// sweepReports bounds the reports of sweeps, which find the same again and again. A later sweep reports what was held back.
var sweepReports = eventlimit.Options{Interval: time.Hour, Memory: 16384, PerSecond: 5, Burst: 100}

// reportStale reports an object that does not speak for the live Node, and its finalizers if it is being deleted. Where no Node is known to
// be gone, the reason is what is wrong with the object itself.
func (s *sweeper) reportStale(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, seen *observed) {
	reason, message := v1alpha1.ReasonStaleNodeObject, seen.assessment.Message
	switch {
	case seen.state == metrics.NodeObjectUnowned:
		reason = seen.assessment.Reason
	case seen.held():
		reason = v1alpha1.ReasonStaleNodeObjectHeld
		message = fmt.Sprintf("Finalizers %s keep this object, which is being deleted since %s and speaks for a Node that is gone. The client that set them has to remove them. %s",
			strings.Join(seen.object.Finalizers, ", "), seen.deletingSince.UTC().Format(time.RFC3339), message)
	}
	if !s.reported.Allow(seen.object.UID, reason) {
		return
	}
	s.recorder.Eventf(reference(seen), policy, corev1.EventTypeWarning, string(reason), actionSweep, "%s", eventlimit.Note(message))
	log.FromContext(ctx).Info(message, "reason", reason, "object", objectName(&seen.object), "uid", seen.object.UID, "assessment", seen.assessment.Reason)
}

// reportDeleted reports on policy and Node, since the object does not exist any more.
func (s *sweeper) reportDeleted(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, seen *observed) {
	reason := v1alpha1.ReasonStaleNodeObjectDeleted
	message := fmt.Sprintf("Deleted %s %s, because policy %s asks for it. %s", seen.object.Kind, objectName(&seen.object), policy.Name, seen.assessment.Message)
	log.FromContext(ctx).Info(message, "reason", reason, "object", objectName(&seen.object), "uid", seen.object.UID)
	if !s.reported.Allow(seen.object.UID, reason) {
		return
	}
	s.recorder.Eventf(policy, reference(seen), corev1.EventTypeNormal, string(reason), actionDelete, "%s", eventlimit.Note(message))
	if live := seen.assessment.LiveUID; live != "" {
		node := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: seen.object.NodeName, UID: live}
		s.recorder.Eventf(node, reference(seen), corev1.EventTypeNormal, string(reason), actionDelete, "%s", eventlimit.Note(message))
	}
}

// reportConflict reports on both objects.
func (s *sweeper) reportConflict(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, resource schema.GroupVersionResource, c *nodeidentity.Conflict) {
	message := fmt.Sprintf("%s of node %s holds %s, and %s of node %s holds %s: one address is under two live Nodes. Found by policy %s; take it from the Node that does not use it.",
		objectName(&c.A), c.A.NodeName, address(c.PrefixA), objectName(&c.B), c.B.NodeName, address(c.PrefixB), policy.Name)
	reason, isNew := v1alpha1.ReasonNodeAddressConflict, false
	for _, pair := range [][2]*nodeidentity.Object{{&c.A, &c.B}, {&c.B, &c.A}} {
		if !s.reported.Allow(pair[0].UID, reason) {
			continue
		}
		isNew = true
		version := resource.GroupVersion().String()
		s.recorder.Eventf(referenceTo(pair[0], version), referenceTo(pair[1], version), corev1.EventTypeWarning, string(reason), actionSweep, "%s", eventlimit.Note(message))
	}
	if isNew {
		log.FromContext(ctx).Error(errors.New("one address is under two live Nodes"), message, "reason", reason)
	}
}

// logUnknown logs an object that could not be judged in full.
func (s *sweeper) logUnknown(ctx context.Context, policy *v1alpha1.NodeResourcePolicy, u *unstructured.Unstructured, why error) {
	if !s.reported.Allow(u.GetUID(), v1alpha1.ReasonObservationFailed) {
		return
	}
	log.FromContext(ctx).Info("An object could not be judged", "reason", v1alpha1.ReasonObservationFailed, "policy", policy.Name, "kind", u.GetKind(),
		"object", types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}, "uid", u.GetUID(), "why", why.Error())
}

func reference(seen *observed) *corev1.ObjectReference {
	return referenceTo(&seen.object, seen.apiVersion)
}

func referenceTo(o *nodeidentity.Object, apiVersion string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: apiVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

// objectName is "namespace/name", or the name of a cluster-scoped object.
func objectName(o *nodeidentity.Object) string {
	return cache.NewObjectName(o.Namespace, o.Name).String()
}

// address formats a prefix, and a single address without its length.
func address(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
