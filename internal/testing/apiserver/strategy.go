// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func now() time.Time { return time.Now() }

// prepareForUpdate keeps what this write cannot change. The result may share values with old.
func (q *request) prepareForUpdate(next, old object) object {
	k := q.kind
	switch {
	case q.sub == "status" && k.custom != nil:
		next = onlyStatus(next, old)
	case q.sub == "status":
		replaceField(next, old, "spec")
		if k.Plural == "pods" {
			replaceField(next["metadata"].(object), old["metadata"].(object), "ownerReferences")
		}
	case k.HasStatus:
		replaceField(next, old, "status")
	}
	metadata, before := next["metadata"].(object), old["metadata"].(object)
	if metadata["uid"] == nil {
		metadata["uid"] = before["uid"]
	}
	metadata["creationTimestamp"] = before["creationTimestamp"]
	replaceField(metadata, before, "generation")
	if before["deletionTimestamp"] != nil {
		metadata["deletionTimestamp"] = before["deletionTimestamp"]
	}
	if metadata["deletionGracePeriodSeconds"] == nil {
		replaceField(metadata, before, "deletionGracePeriodSeconds")
	}
	if k.strategy.generation && isNewGeneration(k, next, old) {
		generation, _, _ := unstructured.NestedInt64(old, "metadata", "generation")
		metadata["generation"] = generation + 1
	}
	return next
}

func replaceField(next, old object, name string) {
	if value, ok := old[name]; ok {
		next[name] = value
	} else {
		delete(next, name)
	}
}

// onlyStatus is a status update of a custom resource: the old object with the new status and its owners.
func onlyStatus(next, old object) object {
	out := runtime.DeepCopyJSON(old)
	replaceField(out["metadata"].(object), next["metadata"].(object), "managedFields")
	replaceField(out["metadata"].(object), next["metadata"].(object), "resourceVersion")
	replaceField(out, next, "status")
	return out
}

// isNewGeneration compares all that is not metadata; the status counts only where it has no subresource.
func isNewGeneration(k *Kind, next, old object) bool {
	rest := func(o object) object {
		o = maps.Clone(o)
		delete(o, "metadata")
		if k.HasStatus {
			delete(o, "status")
		}
		return o
	}
	return !equality.Semantic.DeepEqual(rest(next), rest(old))
}

// validate applies the schema of a custom resource, and of native kinds the little that the product can run into.
func (k *Kind) validate(ctx context.Context, next, old object) field.ErrorList {
	if k.custom != nil {
		return k.custom.Validate(ctx, nil, next, old)
	}
	if k.Plural == "pods" && old != nil {
		return validatePodUpdate(next, old)
	}
	return nil
}

// mutablePodFields are the fields of a pod's spec that may change besides its images and tolerations.
var mutablePodFields = []string{"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates", "containers", "initContainers"}

func validatePodUpdate(next, old object) field.ErrorList {
	spec, before := fixedSpec(next), fixedSpec(old)
	if equality.Semantic.DeepEqual(spec, before) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), "pod updates may not change fields other than `spec.containers[*].image`, "+
		"`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to existing tolerations), "+
		"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)")}
}

func fixedSpec(o object) object {
	spec, _ := o["spec"].(object)
	spec = maps.Clone(spec)
	for _, name := range mutablePodFields {
		delete(spec, name)
	}
	return spec
}

// validateMetadata applies the rules for metadata in every update.
func validateMetadata(next, old object) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("metadata")
	u, was := unstructured.Unstructured{Object: next}, unstructured.Unstructured{Object: old}
	if u.GetUID() != was.GetUID() {
		errs = append(errs, field.Invalid(path.Child("uid"), u.GetUID(), "field is immutable"))
	}
	if was.GetDeletionTimestamp() == nil && u.GetDeletionTimestamp() != nil {
		errs = append(errs, field.Invalid(path.Child("deletionTimestamp"), u.GetDeletionTimestamp(), "field is immutable"))
	}
	if was.GetDeletionTimestamp() != nil {
		for _, finalizer := range u.GetFinalizers() {
			if !slices.Contains(was.GetFinalizers(), finalizer) {
				errs = append(errs, field.Forbidden(path.Child("finalizers"), "no new finalizers can be added if the object is being deleted, found new finalizers "+finalizer))
			}
		}
	}
	return errs
}

func versionMissing() field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")}
}

// isEndOfDeletion reports whether nothing keeps a deleted object any more.
func isEndOfDeletion(next, old object) bool {
	u, was := unstructured.Unstructured{Object: next}, unstructured.Unstructured{Object: old}
	grace := was.GetDeletionGracePeriodSeconds()
	return len(u.GetFinalizers()) == 0 && was.GetDeletionTimestamp() != nil && (grace == nil || *grace == 0)
}
