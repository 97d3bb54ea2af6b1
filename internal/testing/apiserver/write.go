// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// write serves a call that changes something. A plan is made on the present version, with no lock, since admission may call the
// server; if the object changes meanwhile, it is made again.
func (s *Server) write(q *request) (*reply, error) {
	for {
		p, err := s.plan(q)
		if err != nil {
			return nil, err
		}
		last, done := s.commit(q, p)
		if !done {
			continue
		}
		var body []byte
		if p.result != nil {
			body, err = p.result(last)
		} else {
			body, err = q.encode(last)
		}
		return &reply{code: p.code, body: body}, err
	}
}

func (s *Server) plan(q *request) (*plan, error) {
	if q.verb == "create" && q.name == "" {
		return s.planCreate(q)
	}
	plans := map[string]func(*request, *stored) (*plan, error){
		"delete": s.planDelete, "update": s.planUpdate, "patch": s.planPatch, "create binding": s.planBinding, "create eviction": s.planEviction,
		"update status": s.planUpdate, "patch status": s.planPatch,
	}
	if attempt := plans[strings.TrimSpace(q.verb+" "+q.sub)]; attempt != nil && q.name != "" {
		return attempt(q, s.find(q))
	}
	return nil, apierrors.NewMethodNotSupported(q.kind.resource(), q.verb)
}

func (s *Server) planCreate(q *request) (*plan, error) {
	o, err := q.decodeBody()
	if err != nil {
		return nil, err
	}
	u := unstructured.Unstructured{Object: o}
	if u.GetResourceVersion() != "" {
		return nil, apierrors.NewInternalError(fmt.Errorf("resourceVersion should not be set on objects to be created"))
	}
	if u.GetName() == "" && u.GetGenerateName() != "" {
		s.mu.Lock()
		s.serial++
		u.SetName(fmt.Sprintf("%s%05d", u.GetGenerateName(), s.serial))
		s.mu.Unlock()
	}
	if u.GetName() == "" {
		missing := field.ErrorList{field.Required(field.NewPath("metadata", "name"), "name or generateName is required")}
		return nil, apierrors.NewInvalid(q.kind.GroupVersionKind.GroupKind(), "", missing)
	}
	q.name = u.GetName()
	p, err := s.planNew(q, o)
	q.name = "" // a second attempt begins where this one began
	if err != nil {
		return nil, err
	}
	q.name = u.GetName()
	return p, nil
}

// planNew creates an object that was decoded.
func (s *Server) planNew(q *request, o object) (*plan, error) {
	if err := s.checkNamespace(q); err != nil {
		return nil, err
	}
	empty, err := q.kind.empty()
	if err != nil {
		return nil, err
	}
	if o, err = q.owned(empty, o); err != nil {
		return nil, err
	}
	return s.admitNew(q, o)
}

// admitNew is what remains of a creation once the fields have their owners.
func (s *Server) admitNew(q *request, o object) (*plan, error) {
	o, err := s.mutate(q, admissionv1.Create, o, nil)
	if err != nil {
		return nil, err
	}
	s.prepareForCreate(q.kind, o)
	if errs := q.kind.validate(q.http.Context(), o, nil); len(errs) > 0 {
		return nil, apierrors.NewInvalid(q.kind.GroupVersionKind.GroupKind(), q.name, errs)
	}
	if err := s.validate(q, admissionv1.Create, o, nil); err != nil {
		return nil, err
	}
	if s.find(q) != nil {
		return nil, apierrors.NewAlreadyExists(q.kind.resource(), q.name)
	}
	return &plan{states: []object{o}, code: http.StatusCreated}, nil
}

// prepareForCreate sets what clients cannot set.
func (s *Server) prepareForCreate(k *Kind, o object) {
	if k.HasStatus && !k.strategy.statusOnCreate {
		delete(o, "status")
		if k.custom != nil { // a server reads the defaults of the status from what it has stored
			k.custom.Default(o)
		}
		if initial := initialStatus(k, o); initial != nil {
			o["status"] = initial
		}
	}
	metadata := o["metadata"].(object)
	for _, field := range []string{"deletionTimestamp", "deletionGracePeriodSeconds", "generation"} {
		delete(metadata, field)
	}
	u := unstructured.Unstructured{Object: o}
	metadata["uid"], metadata["creationTimestamp"] = s.newUID(k.Plural, u.GetNamespace(), u.GetName()), timestamp(now())
	if k.strategy.generation {
		metadata["generation"] = int64(1)
	}
}

func initialStatus(k *Kind, o object) object {
	switch k.Plural {
	case "pods":
		return object{"phase": "Pending", "qosClass": qualityOfService(o)}
	case "namespaces":
		return object{"phase": "Active"}
	}
	if k.native != nil {
		return object{}
	}
	return nil
}

// qualityOfService distinguishes pods without resources from others, which is as much as a simulation needs.
func qualityOfService(o object) string {
	containers, _, _ := unstructured.NestedSlice(o, "spec", "containers")
	for _, c := range containers {
		if resources, _, _ := unstructured.NestedMap(c.(object), "resources"); len(resources) > 0 {
			return "Burstable"
		}
	}
	return "BestEffort"
}

// checkNamespace refuses a creation in a namespace that does not exist, where namespaces are served.
func (s *Server) checkNamespace(q *request) error {
	namespaces := s.kinds["/v1/namespaces"]
	if namespaces == nil || !q.kind.Namespaced {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.objects[namespaces][key("", q.namespace)]
	if found == nil {
		return apierrors.NewNotFound(namespaces.resource(), q.namespace)
	}
	if (&unstructured.Unstructured{Object: found.object}).GetDeletionTimestamp() != nil {
		return apierrors.NewForbidden(q.kind.resource(), q.name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", q.namespace))
	}
	return nil
}

func (s *Server) planUpdate(q *request, old *stored) (*plan, error) {
	next, err := q.decodeBody()
	if err != nil {
		return nil, err
	}
	if old == nil {
		if !q.kind.strategy.createOnUpdate {
			return nil, q.notFound()
		}
		return s.planNew(q, next)
	}
	u, was := unstructured.Unstructured{Object: next}, unstructured.Unstructured{Object: old.object}
	if uid := u.GetUID(); uid != "" && uid != was.GetUID() {
		return nil, apierrors.NewConflict(q.kind.resource(), q.name,
			fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, was.GetUID())) //nolint:staticcheck // the API server's words
	}
	return s.planChange(q, old, next)
}

// planChange replaces the stored object by one that a client sent or patched.
func (s *Server) planChange(q *request, old *stored, next object) (*plan, error) {
	next, err := q.owned(withOwnMetadata(old.object), next)
	if err != nil {
		return nil, err
	}
	return s.admitChange(q, old, next)
}

// admitChange is what remains of an update once the fields have their owners.
func (s *Server) admitChange(q *request, old *stored, next object) (*plan, error) {
	next, err := s.mutate(q, admissionv1.Update, next, old.object)
	if err != nil {
		return nil, err
	}
	if err := q.checkVersion(next, old); err != nil {
		return nil, err
	}
	next = q.prepareForUpdate(next, old.object)
	errs := validateMetadata(next, old.object)
	errs = append(errs, q.kind.validate(q.http.Context(), next, old.object)...)
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(q.kind.GroupVersionKind.GroupKind(), q.name, errs)
	}
	if err := s.validate(q, admissionv1.Update, next, old.object); err != nil {
		return nil, err
	}
	if isEndOfDeletion(next, old.object) {
		return &plan{old: old, remove: true, result: func(gone *stored) ([]byte, error) {
			return q.encode(q.kind.seal(next, old.revision))
		}}, nil
	}
	if isSame(next, old.object) {
		return &plan{old: old}, nil
	}
	return &plan{old: old, states: []object{next}}, nil
}

func (q *request) checkVersion(next object, old *stored) error {
	u := unstructured.Unstructured{Object: next}
	switch version := u.GetResourceVersion(); {
	case version == "" && q.kind.strategy.unconditional:
		return nil
	case version == "":
		return apierrors.NewInvalid(schema.GroupKind{Group: q.kind.Group, Kind: q.kind.Plural}, q.name, versionMissing())
	case version != (&unstructured.Unstructured{Object: old.object}).GetResourceVersion():
		return apierrors.NewConflict(q.kind.resource(), q.name,
			fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	return nil
}

// isSame ignores what is no change by itself: versions, and the times of managed fields.
func isSame(a, b object) bool {
	return equality.Semantic.DeepEqual(withoutVersions(a), withoutVersions(b))
}

func withoutVersions(o object) object {
	o = maps.Clone(o)
	metadata := maps.Clone(o["metadata"].(object))
	delete(metadata, "resourceVersion")
	if fields, ok := metadata["managedFields"].([]any); ok {
		fields = slices.Clone(fields)
		for i := range fields {
			entry := maps.Clone(fields[i].(object))
			delete(entry, "time")
			fields[i] = entry
		}
		metadata["managedFields"] = fields
	}
	o["metadata"] = metadata
	return o
}
