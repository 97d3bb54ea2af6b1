// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"errors"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/internal/apijson"
)

// Any client can reach the port, and a review carries no signature. So reads of pods, events, metrics and an explanation need
// proof that the sender knows the UID of the object under review. The UID is random, and only clients that may read the object
// know it.
var (
	errNotRegistered = errors.New("the review is not one that this webhook is registered for")
	errNotThatObject = errors.New("the old object of the review is not the object that the API server has")
)

// knownMemory is how many objects are remembered with authentic reviews.
const knownMemory = 4096

// registration is what a webhook is registered for in config/webhook.
type registration struct {
	schema.GroupVersionKind
	resource   string
	operations []admissionv1.Operation
}

func whereaboutsRegistration(kind, resource string, operations ...admissionv1.Operation) registration {
	return registration{
		GroupVersionKind: schema.GroupVersionKind{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1", Kind: kind},
		resource:         resource, operations: operations,
	}
}

// authenticator distinguishes reviews of the API server from others.
type authenticator struct {
	live client.Reader
	// known are the objects, with their UIDs, whose reviews were authentic.
	known *lru.Cache
}

func newAuthenticator(live client.Reader) *authenticator {
	return &authenticator{live: live, known: lru.New(knownMemory)}
}

// underReview is the identity of a review's old object.
type underReview struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name      string    `json:"name"`
		Namespace string    `json:"namespace"`
		UID       types.UID `json:"uid"`
	} `json:"metadata"`
}

// of decodes the identity of the old object; false if the review is not one that the webhook is registered for. Of a deletecollection the API server
// reviews each object, without its name.
func (r registration) of(req *admission.Request) (object underReview, ok bool) {
	switch {
	case req.Resource.Group != r.Group, req.Resource.Resource != r.resource, req.SubResource != "", req.Kind.Kind != r.Kind,
		!slices.Contains(r.operations, req.Operation), apijson.Unmarshal(req.OldObject.Raw, &object) != nil:
		return object, false
	}
	name := req.Name
	if name == "" && req.Operation == admissionv1.Delete {
		name = object.Metadata.Name
	}
	return object, name != "" && object.Kind == r.Kind && object.Metadata.Name == name && object.Metadata.Namespace == req.Namespace && object.Metadata.UID != ""
}

// check fails unless the review is shown to come from the API server and to be about the stored object. It costs a
// read only at the first review of an object. If that read fails the judgement continues: a removal that cannot
// be judged has to be refused, not failed.
func (a *authenticator) check(ctx context.Context, r registration, req *admission.Request) error {
	object, ok := r.of(req)
	if !ok {
		return errNotRegistered
	}
	if _, ok := a.known.Get(object); ok {
		return nil
	}
	var found metav1.PartialObjectMetadata
	found.SetGroupVersionKind(r.GroupVersionKind)
	err := a.live.Get(ctx, types.NamespacedName{Namespace: object.Metadata.Namespace, Name: object.Metadata.Name}, &found)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil //nolint:nilerr // unknown is not false: the judgement decides, and will not be able to read either
	case err != nil || found.UID != object.Metadata.UID:
		return errNotThatObject
	}
	a.known.Add(object, struct{}{})
	return nil
}
