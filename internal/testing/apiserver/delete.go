// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func (s *Server) planDelete(q *request, old *stored) (*plan, error) {
	var options metav1.DeleteOptions
	if len(q.body) > 0 {
		if err := json.Unmarshal(q.body, &options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if old == nil {
		return nil, q.notFound()
	}
	if err := q.checkPreconditions(options.Preconditions, old); err != nil {
		return nil, err
	}
	if err := s.validate(q, admissionv1.Delete, nil, old.object); err != nil {
		return nil, err
	}
	p := deletion(q.kind, old, options)
	if p.remove && !q.kind.strategy.returnsDeleted {
		p.result = func(*stored) ([]byte, error) { return q.success(old) }
	}
	return p, nil
}

func (q *request) checkPreconditions(p *metav1.Preconditions, old *stored) error {
	u := unstructured.Unstructured{Object: old.object}
	asKind := schema.GroupResource{Group: q.kind.Group, Resource: q.kind.Kind} // as the API server has it
	switch {
	case p == nil:
		return nil
	case p.UID != nil && *p.UID != u.GetUID():
		return apierrors.NewConflict(asKind, q.name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s)", *p.UID, u.GetUID()))
	case p.ResourceVersion != nil && *p.ResourceVersion != u.GetResourceVersion():
		return apierrors.NewConflict(asKind, q.name,
			fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s)", *p.ResourceVersion, u.GetResourceVersion()))
	}
	return nil
}

// deletion marks the object as deleted, shortens its grace period, removes it, or changes nothing.
func deletion(k *Kind, old *stored, options metav1.DeleteOptions) *plan {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(old.object)}
	isHeld := len(u.GetFinalizers()) > 0
	if !k.strategy.graceful {
		return finish(old, u, isHeld)
	}
	if left := u.GetDeletionGracePeriodSeconds(); u.GetDeletionTimestamp() != nil {
		switch {
		case left == nil || *left == 0:
			return finish(old, u, isHeld)
		case options.GracePeriodSeconds == nil || *options.GracePeriodSeconds >= *left:
			return &plan{old: old}
		}
		shorten(u, *left, max(*options.GracePeriodSeconds, 0))
	} else {
		period := gracePeriod(u, options)
		u.SetDeletionTimestamp(new(metav1.NewTime(now().Add(time.Duration(period) * time.Second))))
		u.SetDeletionGracePeriodSeconds(&period)
		u.SetGeneration(u.GetGeneration() + 1)
	}
	return &plan{old: old, states: []object{u.Object}, remove: !isHeld && *u.GetDeletionGracePeriodSeconds() == 0}
}

// finish deletes at once, or as soon as the finalizers are gone.
func finish(old *stored, u *unstructured.Unstructured, isHeld bool) *plan {
	if !isHeld {
		return &plan{old: old, remove: true}
	}
	if u.GetDeletionTimestamp() == nil {
		u.SetDeletionTimestamp(new(metav1.NewTime(now())))
		if u.GetGeneration() > 0 {
			u.SetGeneration(u.GetGeneration() + 1)
		}
	}
	u.SetDeletionGracePeriodSeconds(new(int64(0)))
	if isSame(u.Object, old.object) {
		return &plan{old: old}
	}
	return &plan{old: old, states: []object{u.Object}}
}

// shorten moves the end of the grace period forward, but not before now.
func shorten(u *unstructured.Unstructured, left, period int64) {
	end := u.GetDeletionTimestamp().Add(time.Duration(period-left) * time.Second)
	if end.Before(now()) {
		end = now()
		if period != 0 {
			period = 1
		}
	}
	u.SetDeletionTimestamp(new(metav1.NewTime(end)))
	u.SetDeletionGracePeriodSeconds(&period)
}

// gracePeriod is a pod's: none if nothing of it runs.
func gracePeriod(u *unstructured.Unstructured, options metav1.DeleteOptions) int64 {
	node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	if node == "" || phase == string(corev1.PodFailed) || phase == string(corev1.PodSucceeded) {
		return 0
	}
	period, _, _ := unstructured.NestedInt64(u.Object, "spec", "terminationGracePeriodSeconds")
	if options.GracePeriodSeconds != nil {
		period = *options.GracePeriodSeconds
	}
	if period < 0 {
		return 1
	}
	return period
}

// success responds to a deletion of a kind whose last state is not returned.
func (q *request) success(old *stored) ([]byte, error) {
	uid := (&unstructured.Unstructured{Object: old.object}).GetUID()
	return json.Marshal(&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: q.name, Group: q.kind.Group, Kind: q.kind.Plural, UID: uid}})
}

// planEviction deletes a pod as the eviction API does; there are no disruption budgets.
func (s *Server) planEviction(q *request, old *stored) (*plan, error) {
	var eviction struct {
		DeleteOptions *metav1.DeleteOptions `json:"deleteOptions"`
	}
	if err := json.Unmarshal(q.body, &eviction); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if old == nil {
		return nil, q.notFound()
	}
	var options metav1.DeleteOptions
	if eviction.DeleteOptions != nil {
		options = *eviction.DeleteOptions
	}
	if err := q.checkPreconditions(options.Preconditions, old); err != nil {
		return nil, err
	}
	as := *q
	as.sub, as.verb = "", "delete"
	if err := s.validate(&as, admissionv1.Delete, nil, old.object); err != nil {
		return nil, err
	}
	evicted := runtime.DeepCopyJSON(old.object)
	condition := object{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
		"lastProbeTime": nil, "lastTransitionTime": timestamp(now())}
	if err := addCondition(evicted, condition); err != nil {
		return nil, err
	}
	p := deletion(q.kind, &stored{object: evicted}, options)
	p.old, p.states = old, append([]object{evicted}, p.states...)
	p.code, p.result = http.StatusCreated, created
	return p, nil
}

func addCondition(o, condition object) error {
	conditions, _, err := unstructured.NestedSlice(o, "status", "conditions")
	if err != nil {
		return err
	}
	return unstructured.SetNestedSlice(o, append(conditions, condition), "status", "conditions")
}

func created(*stored) ([]byte, error) {
	return json.Marshal(&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusCreated})
}

// planBinding assigns a pod to a node.
func (s *Server) planBinding(q *request, old *stored) (*plan, error) {
	var binding corev1.Binding
	if err := json.Unmarshal(q.body, &binding); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if old == nil {
		return nil, q.notFound()
	}
	next := runtime.DeepCopyJSON(old.object)
	u := unstructured.Unstructured{Object: next}
	node, _, _ := unstructured.NestedString(next, "spec", "nodeName")
	switch {
	case binding.UID != "" && binding.UID != u.GetUID():
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, q.name, fmt.Errorf("precondition failed: the pod has the UID %s", u.GetUID()))
	case u.GetDeletionTimestamp() != nil:
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, q.name, fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", q.name))
	case node != "":
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, q.name, fmt.Errorf("pod %s is already assigned to node %q", q.name, node))
	}
	if err := unstructured.SetNestedField(next, binding.Target.Name, "spec", "nodeName"); err != nil {
		return nil, err
	}
	condition := object{"type": "PodScheduled", "status": "True", "lastProbeTime": nil, "lastTransitionTime": timestamp(now())}
	if err := addCondition(next, condition); err != nil {
		return nil, err
	}
	return &plan{old: old, states: []object{next}, code: http.StatusCreated, result: created}, nil
}
