// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"reflect"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// object is an API object as JSON has it.
type object = map[string]any

// Kind is a resource that the server serves, in one version.
type Kind struct {
	schema.GroupVersionKind
	Plural     string
	Namespaced bool
	// HasStatus: the resource has the subresource status.
	HasStatus bool
	// Unmanaged leaves metadata.managedFields out, for resources of which no client reads them: to keep them is a large part of a write.
	Unmanaged bool

	native   reflect.Type // nil for a custom resource
	custom   *customSchema
	types    managedfields.TypeConverter
	strategy strategy

	lock     sync.Mutex
	managers map[string]*managedfields.FieldManager // by subresource
}

// strategy is what differs between the resources' registries.
type strategy struct {
	// graceful resources are deleted after a grace period (pods).
	graceful bool
	// createOnUpdate lets a PUT create the object.
	createOnUpdate bool
	// unconditional lets a PUT omit the resourceVersion.
	unconditional bool
	// generation is kept in metadata.
	generation bool
	// statusOnCreate keeps the status that a client creates the object with.
	statusOnCreate bool
	// returnsDeleted responds to a deletion with the object.
	returnsDeleted bool
	// setDefaults completes an object that was decoded.
	setDefaults func(runtime.Object)
	// selectable are the fields for selectors, besides name and namespace.
	selectable func(object) fields.Set
}

// scheme knows the native kinds: Kubernetes' own, and CustomResourceDefinitions.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	return s
})

var nativeTypes = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(clientgoscheme.Scheme) })

// native is a resource of a kind that has a Go type.
func native(prototype runtime.Object, plural string, namespaced, hasStatus bool, s strategy) *Kind {
	kinds, _, err := scheme().ObjectKinds(prototype)
	utilruntime.Must(err)
	types := nativeTypes()
	if !clientgoscheme.Scheme.Recognizes(kinds[0]) {
		types = managedfields.NewDeducedTypeConverter()
	}
	return &Kind{GroupVersionKind: kinds[0], Plural: plural, Namespaced: namespaced, HasStatus: hasStatus,
		native: reflect.TypeOf(prototype).Elem(), types: types, strategy: s}
}

func (k *Kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Plural}
}

func (k *Kind) groupVersionResource() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Plural)
}

// normalize decodes an object as the server does: unknown fields are dropped, defaults set. The argument is not kept.
func (k *Kind) normalize(o object) (object, error) {
	if k.custom != nil {
		return k.custom.normalize(o)
	}
	typed := reflect.New(k.native).Interface().(runtime.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, typed); err != nil {
		return nil, fmt.Errorf("decoding a %s: %w", k.Kind, err)
	}
	if k.strategy.setDefaults != nil {
		k.strategy.setDefaults(typed)
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	out["apiVersion"], out["kind"] = k.GroupVersion().String(), k.Kind
	if metadata, ok := out["metadata"].(object); ok && metadata["creationTimestamp"] == nil {
		delete(metadata, "creationTimestamp")
	}
	return out, nil
}

// empty is an object as it is before a creation: the fields of a Go type that are never left out are there.
func (k *Kind) empty() (object, error) {
	out := object{}
	if k.native != nil {
		var err error
		if out, err = runtime.DefaultUnstructuredConverter.ToUnstructured(reflect.New(k.native).Interface()); err != nil {
			return nil, err
		}
	}
	out["apiVersion"], out["kind"], out["metadata"] = k.GroupVersion().String(), k.Kind, object{}
	return out, nil
}

// structure is the Go type by which strategic merge patches merge. Custom resources have none.
func (k *Kind) structure() any {
	return reflect.New(k.native).Elem().Interface()
}
