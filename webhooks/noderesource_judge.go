// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// ruling is the decision about a request.
type ruling struct {
	nodeidentity.Judgment
	// policy is empty if there is none, or if it could not be read.
	policy string
	// action is empty, which counts as Deny, where policy is empty.
	action v1alpha1.PolicyAction
}

// judge finds the policy and judges by it.
func (g *nodeResourceGuard) judge(ctx context.Context, name string, req *admission.Request) ruling {
	policy, err := g.policy(ctx, name)
	switch {
	case err != nil:
		return ruling{Judgment: couldNotJudge(err)}
	case policy == nil:
		// The API server's webhook outlives its policy until the webhook controller has seen the deletion.
		return ruling{Judgment: letThrough(v1alpha1.ReasonPolicyGone)}
	}
	compiled, err := g.compiled.of(policy)
	if err != nil {
		judgment := couldNotJudge(fmt.Errorf("the policy cannot work: %w", err))
		if invalid := new(nodepolicy.InvalidError); errors.As(err, &invalid) {
			judgment.Reason = invalid.Reason
		}
		return ruling{Judgment: judgment, policy: name, action: policy.Spec.Action}
	}
	return ruling{Judgment: g.judgeBy(ctx, compiled, req), policy: name, action: compiled.Spec().Action}
}

func (g *nodeResourceGuard) judgeBy(ctx context.Context, policy *nodepolicy.Compiled, req *admission.Request) nodeidentity.Judgment {
	if err := checkDirection(policy, req); err != nil {
		return couldNotJudge(err)
	}
	switch {
	case req.Operation == admissionv1.Delete:
		return letThrough(v1alpha1.ReasonBeingDeleted)
	case slices.Contains(policy.Spec().ExemptUsers, req.UserInfo.Username):
		return letThrough(v1alpha1.ReasonExemptUser)
	}
	after, err := decodeObject(req.Object.Raw)
	if err == nil && after == nil {
		err = errors.New("the request has no object")
	}
	if err != nil {
		return couldNotJudge(fmt.Errorf("decoding the object: %w", err))
	}
	before, err := decodeObject(req.OldObject.Raw)
	if err != nil {
		return couldNotJudge(fmt.Errorf("decoding the old object: %w", err))
	}
	return g.judgeObjects(ctx, policy, req, before, after)
}

// checkDirection fails for a call that the policy does not guard: no refusal may result from a webhook that a user made by
// hand, or of one that is older than its policy.
func checkDirection(policy *nodepolicy.Compiled, req *admission.Request) error {
	guarded := policy.Resource()
	asked := schema.GroupResource{Group: req.Resource.Group, Resource: req.Resource.Resource}
	versions := policy.Spec().Resource.Versions
	switch status := policy.Spec().Resource.Status; {
	case asked != guarded:
		return fmt.Errorf("the call is about %s, and the policy guards %s: its webhook is not (or no longer) the generated one", asked, guarded)
	case !slices.Contains(versions, "*") && !slices.Contains(versions, req.Resource.Version):
		// What the policy reads may have another name in this version, and the object would speak for no node.
		return fmt.Errorf("the call has %s in version %s, and the policy reads %s: its webhook is not (or no longer) the generated one",
			asked, req.Resource.Version, strings.Join(versions, ", "))
	case req.SubResource == "", req.SubResource == "status" && (status == nil || *status):
		return nil
	default:
		return fmt.Errorf("the call is about %s/%s, which the policy does not guard: its webhook is not (or no longer) the generated one", asked, req.SubResource)
	}
}

// judgeObjects judges a write by its objects; before is nil where there is none.
func (g *nodeResourceGuard) judgeObjects(
	ctx context.Context, policy *nodepolicy.Compiled, req *admission.Request, before, after *unstructured.Unstructured,
) nodeidentity.Judgment {
	write := nodeidentity.Write{
		Policy: policy.Policy(), Operation: req.Operation, Subresource: req.SubResource,
		Removes: before != nil && nodeidentity.OnlyRemovals(before, after),
	}
	if req.Operation == admissionv1.Update && after.GetDeletionTimestamp() != nil {
		write.Gains = policy.Gains(before, after)
	}
	object, err := policy.Object(after)
	if err != nil {
		return judgeUnreadable(&write, before, after, err)
	}
	write.New = object
	if before != nil {
		// Without an old object that can be read, references may have changed, and the Node is read live.
		if old, err := policy.Object(before); err == nil {
			write.Old = &old
		}
	}
	return g.judgeWrite(ctx, &write)
}

// judgeUnreadable refuses an object of an unknown node, but allows what finishes its deletion.
func judgeUnreadable(w *nodeidentity.Write, before, after *unstructured.Unstructured, err error) nodeidentity.Judgment {
	message := fmt.Sprintf("%s %s could not be read: %v. The node for which it speaks is unknown; correct the object or, "+
		"if it is right, the policy's nodeName and nodeUID.", after.GetKind(), objectName(after), err)
	switch deleting := before != nil && after.GetDeletionTimestamp() != nil; {
	case deleting && (w.Gains == "" || len(after.GetFinalizers()) == 0):
		return letThrough(v1alpha1.ReasonBeingDeleted)
	case w.Removes:
		return letThrough(v1alpha1.ReasonOnlyRemovals)
	case deleting:
		message += fmt.Sprintf(" The object is being deleted, and this write adds %s. A write that adds no address is allowed.", w.Gains)
	}
	return nodeidentity.Judgment{Outcome: nodeidentity.Refuse, Assessment: nodeidentity.Assessment{Reason: v1alpha1.ReasonNodeUnreadable, Message: message}}
}

// judgeWrite reads the cache first, which may only allow; all else is judged again on a live Node.
func (g *nodeResourceGuard) judgeWrite(ctx context.Context, w *nodeidentity.Write) nodeidentity.Judgment {
	name := w.New.NodeName
	if name == "" || len(content.IsPathSegmentName(name)) > 0 {
		// The API server has no Node that could be asked for by this name.
		return nodeidentity.Judge(*w, nodeidentity.Evidence{Source: nodeidentity.Live, Node: release.Absent[nodeidentity.Node]()})
	}
	cached := &corev1.Node{}
	err := g.cached.Get(ctx, client.ObjectKey{Name: name}, cached)
	judgment := nodeidentity.Judge(*w, nodeidentity.Evidence{Source: nodeidentity.Cached, Node: nodeFact(cached, err)})
	if judgment.Outcome == nodeidentity.Allow {
		return judgment
	}
	metrics.NodeResourceLiveReads.WithLabelValues(w.Policy.Name).Inc()
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err = g.live.Get(ctx, client.ObjectKey{Name: name}, live)
	return nodeidentity.Judge(*w, nodeidentity.Evidence{Source: nodeidentity.Live, Node: nodeFact(live, err)})
}

// nodeFact is what was read of a Node. Only the API server's own "not found" is an absence.
func nodeFact(node client.Object, err error) release.Fact[nodeidentity.Node] {
	switch {
	case served.IsAbsent(err):
		return release.Absent[nodeidentity.Node]()
	case err != nil:
		return release.Unknown[nodeidentity.Node](err.Error())
	default:
		return release.Known(nodeidentity.Node{UID: node.GetUID(), CreationTimestamp: node.GetCreationTimestamp().Time})
	}
}

// decodeObject decodes an object whole; nil if there is none.
func decodeObject(raw []byte) (*unstructured.Unstructured, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	u := &unstructured.Unstructured{}
	return u, u.UnmarshalJSON(raw)
}

// objectName is "namespace/name", or the name of a cluster-scoped object.
func objectName(u *unstructured.Unstructured) string {
	return cache.NewObjectName(u.GetNamespace(), u.GetName()).String()
}

func letThrough(reason v1alpha1.Reason) nodeidentity.Judgment {
	return nodeidentity.Judgment{Outcome: nodeidentity.Allow, Assessment: nodeidentity.Assessment{Reason: reason}}
}

func couldNotJudge(err error) nodeidentity.Judgment {
	return nodeidentity.Judgment{Outcome: nodeidentity.CouldNotTell, Assessment: nodeidentity.Assessment{
		Reason: v1alpha1.ReasonObservationFailed, Message: fmt.Sprintf("Could not tell whether the object speaks for the live Node: %v.", err),
	}}
}
