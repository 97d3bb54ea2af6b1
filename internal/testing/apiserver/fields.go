// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fieldManager keeps metadata.managedFields of writes to the resource or to one of its subresources.
func (k *Kind) fieldManager(subresource string) (*managedfields.FieldManager, error) {
	k.lock.Lock()
	defer k.lock.Unlock()
	if manager := k.managers[subresource]; manager != nil {
		return manager, nil
	}
	construct := managedfields.NewDefaultFieldManager
	if k.custom != nil {
		construct = managedfields.NewDefaultCRDFieldManager
	}
	manager, err := construct(k.types, sameVersion{}, sameVersion{}, sameVersion{kind: k}, k.GroupVersionKind, k.GroupVersion(), subresource, k.resetFields(subresource))
	if err != nil {
		return nil, err
	}
	if k.managers == nil {
		k.managers = map[string]*managedfields.FieldManager{}
	}
	k.managers[subresource] = manager
	return manager, nil
}

// resetFields are those that a write to the subresource cannot change, and so does not own.
func (k *Kind) resetFields(subresource string) map[fieldpath.APIVersion]fieldpath.Filter {
	var paths []fieldpath.Path
	switch {
	case subresource == "status" && k.custom != nil:
		paths = []fieldpath.Path{fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec")}
	case subresource == "status" && k.Plural == "pods":
		paths = []fieldpath.Path{fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "deletionTimestamp"),
			fieldpath.MakePathOrDie("metadata", "ownerReferences")}
	case subresource == "status":
		paths = []fieldpath.Path{fieldpath.MakePathOrDie("spec")}
	case subresource == "" && k.HasStatus:
		paths = []fieldpath.Path{fieldpath.MakePathOrDie("status")}
	default:
		return nil
	}
	return fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(k.GroupVersion().String()): fieldpath.NewSet(paths...)})
}

// owned returns the object with the managed fields of an update from live to next.
func (q *request) owned(live, next object) (object, error) {
	if q.kind.Unmanaged {
		delete(next["metadata"].(object), "managedFields")
		return next, nil
	}
	manager, err := q.kind.fieldManager(q.sub)
	if err != nil {
		return nil, err
	}
	out := manager.UpdateNoErrors(&unstructured.Unstructured{Object: live}, &unstructured.Unstructured{Object: next}, q.manager())
	return out.(*unstructured.Unstructured).Object, nil
}

// withOwnMetadata is an object of which a field manager may take the managed fields.
func withOwnMetadata(o object) object {
	o = maps.Clone(o)
	o["metadata"] = maps.Clone(o["metadata"].(object))
	return o
}

// sameVersion converts and defaults nothing: each kind has one version, and objects are normalized elsewhere.
type sameVersion struct {
	runtime.ObjectConvertor
	kind *Kind
}

func (sameVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (sameVersion) Default(runtime.Object) {}

func (v sameVersion) New(schema.GroupVersionKind) (runtime.Object, error) {
	o, err := v.kind.empty()
	return &unstructured.Unstructured{Object: o}, err
}
