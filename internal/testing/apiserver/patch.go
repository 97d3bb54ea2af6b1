// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

func (s *Server) planPatch(q *request, old *stored) (*plan, error) {
	if types.PatchType(q.http.Header.Get("Content-Type")) == types.ApplyYAMLPatchType {
		return s.planApply(q, old)
	}
	if old == nil {
		return nil, q.notFound()
	}
	next, err := q.patched(old)
	if err != nil {
		return nil, err
	}
	if next, err = q.address(next); err != nil {
		return nil, err
	}
	return s.planChange(q, old, next)
}

// patched is the stored object with the patch.
func (q *request) patched(old *stored) (object, error) {
	if types.PatchType(q.http.Header.Get("Content-Type")) == types.StrategicMergePatchType && q.kind.native != nil {
		return q.merged(old)
	}
	raw, err := q.patchedText(old)
	if err != nil {
		return nil, err
	}
	var next object
	if err := utiljson.Unmarshal(raw, &next); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return next, nil
}

// merged is the stored object with a strategic merge patch.
func (q *request) merged(old *stored) (object, error) {
	var patch object
	if err := utiljson.Unmarshal(q.body, &patch); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next, err := strategicpatch.StrategicMergeMapPatch(runtime.DeepCopyJSON(old.object), patch, q.kind.structure())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return next, nil
}

func (q *request) patchedText(old *stored) ([]byte, error) {
	var raw []byte
	before, err := old.text()
	if err != nil {
		return nil, err
	}
	switch kind := types.PatchType(q.http.Header.Get("Content-Type")); kind {
	case types.MergePatchType:
		raw, err = jsonpatch.MergePatch(before, q.body)
	case types.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(q.body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		raw, err := patch.Apply(before)
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return raw, nil
	default:
		return nil, unsupportedPatch(kind)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return raw, nil
}

func unsupportedPatch(kind types.PatchType) error {
	return apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "",
		fmt.Sprintf("the body of the request was in an unknown format: %s", kind), 0, false)
}

// planApply is server-side apply.
func (s *Server) planApply(q *request, old *stored) (*plan, error) {
	applied, err := q.decodeApplied()
	if err != nil {
		return nil, err
	}
	manager, err := q.kind.fieldManager(q.sub)
	if err != nil {
		return nil, err
	}
	live, err := q.kind.empty()
	if err != nil {
		return nil, err
	}
	if old != nil {
		live = runtime.DeepCopyJSON(old.object)
	} else if q.sub != "" {
		return nil, q.notFound()
	}
	merged, err := manager.Apply(&unstructured.Unstructured{Object: live}, &unstructured.Unstructured{Object: applied}, q.manager(),
		q.query.Get("force") == "true")
	if err != nil {
		return nil, err
	}
	next, err := q.kind.normalizeOrRefuse(merged.(*unstructured.Unstructured).Object)
	if err != nil {
		return nil, err
	}
	u := unstructured.Unstructured{Object: next}
	if old != nil {
		return s.admitChange(q, old, next)
	}
	if uid := u.GetUID(); uid != "" {
		return nil, apierrors.NewConflict(q.kind.resource(), q.name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if err := s.checkNamespace(q); err != nil {
		return nil, err
	}
	return s.admitNew(q, next)
}

// decodeApplied reads the configuration of an apply. Unlike other bodies it gets no defaults: what it does not say is not applied.
func (q *request) decodeApplied() (object, error) {
	if q.manager() == "" || q.query.Get("fieldManager") == "" {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "PatchOptions"}, "", nil)
	}
	raw, err := yaml.YAMLToJSON(q.body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var o object
	if err := utiljson.Unmarshal(raw, &o); err != nil || o == nil {
		return nil, apierrors.NewBadRequest("error decoding the applied configuration")
	}
	if _, ok := o["metadata"].(object); !ok {
		o["metadata"] = object{}
	}
	u := unstructured.Unstructured{Object: o}
	if u.GetManagedFields() != nil {
		return nil, apierrors.NewBadRequest("metadata.managedFields must be nil")
	}
	u.SetName(q.name)
	if q.namespace != "" {
		u.SetNamespace(q.namespace)
	}
	if _, err := json.Marshal(o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return o, nil
}
