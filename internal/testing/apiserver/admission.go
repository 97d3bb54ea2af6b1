// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
)

// review is one write, as admission judges it. Objects of native kinds are judged as their JSON, which is what CEL makes of them too.
type review struct {
	q         *request
	operation admissionv1.Operation
	next, old object
	namespace *stored // of the object; nil for cluster-scoped kinds
	// typedNamespace is the namespace as CEL sees it, once it was asked for.
	typedNamespace *corev1.Namespace
	attributes     *admission.VersionedAttributes
}

func (s *Server) newReview(q *request, operation admissionv1.Operation, next, old object) *review {
	r := &review{q: q, operation: operation, next: next, old: old}
	if namespaces := s.kinds["/v1/namespaces"]; namespaces != nil && q.kind.Namespaced {
		s.mu.Lock()
		r.namespace = s.objects[namespaces][key("", q.namespace)]
		s.mu.Unlock()
	}
	record := admission.NewAttributesRecord(asRuntime(next), asRuntime(old), q.kind.GroupVersionKind, q.namespace, q.name,
		q.kind.groupVersionResource(), q.sub, admission.Operation(operation), optionsOf(operation), q.isDryRun(), q.user)
	r.attributes = &admission.VersionedAttributes{Attributes: record, VersionedKind: q.kind.GroupVersionKind}
	if next != nil {
		r.attributes.VersionedObject.Set(asRuntime(next))
	}
	if old != nil {
		r.attributes.VersionedOldObject.Set(asRuntime(old))
	}
	return r
}

// asRuntime is a nil interface for no object.
func asRuntime(o object) runtime.Object {
	if o == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: o}
}

func optionsOf(operation admissionv1.Operation) runtime.Object {
	switch operation {
	case admissionv1.Create:
		return &metav1.CreateOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}}
	case admissionv1.Delete:
		return &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "DeleteOptions"}}
	default:
		return &metav1.UpdateOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "UpdateOptions"}}
	}
}

// scope is which writes a webhook or a policy is about.
type scope struct {
	rules               []admissionregistrationv1.RuleWithOperations
	namespaces, objects labels.Selector
	err                 error
}

func newScope(rules []admissionregistrationv1.RuleWithOperations, byNamespace, byObject *metav1.LabelSelector) scope {
	s := scope{rules: rules, namespaces: labels.Everything(), objects: labels.Everything()}
	if byNamespace != nil {
		s.namespaces, s.err = metav1.LabelSelectorAsSelector(byNamespace)
	}
	if byObject != nil && s.err == nil {
		s.objects, s.err = metav1.LabelSelectorAsSelector(byObject)
	}
	return s
}

// selects reports whether the write is in the scope.
func (s *scope) selects(r *review) (bool, error) {
	switch {
	case rules.IsExemptAdmissionConfigurationResource(r.attributes) || !r.matchesRules(s.rules):
		return false, nil
	case s.err != nil:
		return false, s.err
	case !s.objects.Empty() && !s.objects.Matches(labelsOf(r.next)) && !s.objects.Matches(labelsOf(r.old)):
		return false, nil
	case s.namespaces.Empty() || !r.q.kind.Namespaced:
		return true, nil
	case r.namespace == nil:
		return false, fmt.Errorf("namespace %q not found", r.q.namespace)
	}
	return s.namespaces.Matches(labelsOf(r.namespace.object)), nil
}

func (r *review) matchesRules(all []admissionregistrationv1.RuleWithOperations) bool {
	for _, rule := range all {
		matcher := rules.Matcher{Rule: rule, Attr: r.attributes}
		if matcher.Matches() {
			return true
		}
	}
	return false
}

func labelsOf(o object) labels.Set {
	if o == nil {
		return nil
	}
	return (&unstructured.Unstructured{Object: o}).GetLabels()
}

// mutate calls the mutating webhooks that match, by the names of their configurations, each once.
func (s *Server) mutate(q *request, operation admissionv1.Operation, next, old object) (object, error) {
	force, err := s.admission()
	if err != nil {
		return nil, err
	}
	var r *review // of the present state
	for _, hook := range force.mutating {
		if r == nil {
			r = s.newReview(q, operation, next, old)
		}
		changed, err := s.call(hook, r)
		if err != nil {
			return nil, err
		}
		if changed == nil {
			continue
		}
		if next, err = q.kind.normalizeOrRefuse(changed); err != nil {
			return nil, err
		}
		r = nil
	}
	return next, nil
}

// validate calls the policies and the validating webhooks; any of them can refuse.
func (s *Server) validate(q *request, operation admissionv1.Operation, next, old object) error {
	r := s.newReview(q, operation, next, old)
	force, err := s.admission()
	if err != nil {
		return err
	}
	for _, policy := range force.policies {
		if err := policy.judge(r); err != nil {
			return err
		}
	}
	for _, hook := range force.validating {
		if _, err := s.call(hook, r); err != nil {
			return err
		}
	}
	return nil
}
