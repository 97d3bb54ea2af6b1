// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/protection"
)

// FuzzServe: for any body, the response is a review of the same UID or a failed call, which leaves it to the failurePolicy.
func FuzzServe(f *testing.F) {
	served := Serve("test", responding(admission.Denied("in use")))
	f.Fuzz(func(t *testing.T, body []byte) {
		request := httptest.NewRequest(http.MethodPost, "/?timeout=2s", strings.NewReader(string(body)))
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		served.ServeHTTP(recorder, request)
		if recorder.Code != http.StatusOK {
			return
		}
		var sent, got admissionv1.AdmissionReview
		if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil || got.Response == nil {
			t.Fatalf("HTTP 200 with %s, %v; expected a review with a response", recorder.Body, err)
		}
		if err := json.Unmarshal(body, &sent); err == nil && sent.Request != nil && got.Response.UID != sent.Request.UID {
			t.Errorf("the response is for %q; expected %q", got.Response.UID, sent.Request.UID)
		}
		if got.Response.Allowed {
			t.Errorf("%s was allowed by a handler that refuses", body)
		}
	})
}

// FuzzPodDefaulter: no pod is refused, no more definitions are read than the bound, and a patch adds the finalizer and the label and nothing else.
func FuzzPodDefaulter(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		reader := newDefinitions()
		response := defaulter(t, reader, protection.Rules{}).Handle(t.Context(), creation(string(raw)))
		if reader.reads > podnetwork.MaxDefinitions {
			t.Errorf("%d definitions are read", reader.reads)
		}
		if !response.Allowed {
			if response.Result.Code != http.StatusServiceUnavailable || response.Patch != nil {
				t.Errorf("refused: %+v", response)
			}
			return
		}
		length := 0
		for _, warning := range response.Warnings {
			length += len(warning)
		}
		if length > 4<<10 {
			t.Errorf("%d bytes of warnings", length)
		}
		if response.Patch == nil {
			return
		}
		patched := apply(t, string(raw), response)
		metadata := patched["metadata"].(map[string]any)
		finalizers, _ := metadata["finalizers"].([]any)
		labels, _ := metadata["labels"].(map[string]any)
		if !slices.Contains(finalizers, any(v1alpha1.Finalizer)) || labels[v1alpha1.GuardedLabel] != "true" {
			t.Errorf("the patch leaves the finalizers %v and the labels %v", finalizers, labels)
		}
		if diff := cmp.Diff(withoutProtection(apply(t, string(raw), admission.Allowed(""))), withoutProtection(patched), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the patch changes more (-sent +patched):\n%s", diff)
		}
	})
}

// withoutProtection takes away what protects a pod; no list and no map is as good as an empty one.
func withoutProtection(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	finalizers, _ := metadata["finalizers"].([]any)
	finalizers = slices.DeleteFunc(finalizers, func(f any) bool { return f == v1alpha1.Finalizer })
	labels, _ := metadata["labels"].(map[string]any)
	delete(labels, v1alpha1.GuardedLabel)
	delete(metadata, "finalizers")
	delete(metadata, "labels")
	return map[string]any{"object": object, "finalizers": append([]any{}, finalizers...), "labels": labels, "": len(metadata)}
}

// foreignWrite is an update, or a deletion where there is nothing after it, by a user whom nothing is known of.
func foreignWrite(kind, resource, name string, before, after []byte) admission.Request {
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, UserInfo: authenticationv1.UserInfo{Username: "someone"}, Namespace: "kube-system", Name: name,
		Kind:     metav1.GroupVersionKind{Group: poolRemovals.Group, Version: "v1alpha1", Kind: kind},
		Resource: metav1.GroupVersionResource{Group: poolRemovals.Group, Version: "v1alpha1", Resource: resource},
		Object:   runtime.RawExtension{Raw: after}, OldObject: runtime.RawExtension{Raw: before},
	}}
	if len(after) == 0 {
		request.Operation = admissionv1.Delete
	}
	return request
}

// podRefs reads the podrefs of a pool's entries, by offset, with no code of the product; false for what is no pool of the range.
func podRefs(raw []byte) (map[string]string, bool) {
	var pool struct {
		Spec struct {
			Range       string `json:"range"`
			Allocations map[string]struct {
				PodRef string `json:"podref"`
			} `json:"allocations"`
		} `json:"spec"`
	}
	err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &pool)
	refs := map[string]string{}
	for offset, entry := range pool.Spec.Allocations {
		refs[offset] = entry.PodRef
	}
	return refs, err == nil && pool.Spec.Range == poolRange
}

// FuzzPoolReview: no write removes the entry of a live pod from any pool, and what cannot be read is refused. Each entry costs
// a few reads.
func FuzzPoolReview(f *testing.F) {
	c := onNodeA()
	guard, _ := c.guard(f, configv1alpha1.ReleaseModeDeny)
	f.Fuzz(func(t *testing.T, before, after []byte) {
		c.reads.Store(0)
		response := (&IPPoolReleaseValidator{guard}).Handle(t.Context(), foreignWrite("IPPool", "ippools", "p", before, after))
		had, wasPool := podRefs(before)
		if reads := int(c.reads.Load()); reads > 8+4*len(had) {
			t.Errorf("%d reads for %d entries", reads, len(had))
		}
		if !json.Valid(before) || len(after) > 0 && !json.Valid(after) {
			checkRefused(t, response)
			return
		}
		has, _ := podRefs(after)
		if wasPool && had["1"] == "default/web-0" && has["1"] != "default/web-0" {
			checkRefused(t, response)
		}
	})
}

// FuzzReservationReview: while a pool has the address, no write takes its reservation away or gives it to another pod; a mark gives it to none.
func FuzzReservationReview(f *testing.F) {
	c := onNodeA()
	c.holders = []ipam.Key{{Backend: "whereabouts", Pool: "kube-system/10.10.0.0-24"}}
	guard, _ := c.guard(f, configv1alpha1.ReleaseModeDeny)
	f.Fuzz(func(t *testing.T, before, after []byte) {
		c.reads.Store(0)
		response := (&ReservationReleaseValidator{guard}).Handle(t.Context(),
			foreignWrite("OverlappingRangeIPReservation", "overlappingrangeipreservations", "10.10.0.1", before, after))
		if reads := c.reads.Load(); reads > 8 {
			t.Errorf("%d reads", reads)
		}
		var was, is struct {
			Spec struct {
				PodRef string `json:"podref"`
			} `json:"spec"`
		}
		err := errors.Join(kjson.UnmarshalCaseSensitivePreserveInts(before, &was), kjson.UnmarshalCaseSensitivePreserveInts(after, &is))
		if err != nil || was != is && is.Spec.PodRef != ipam.ReservationTombstone(was.Spec.PodRef) {
			checkRefused(t, response)
		}
	})
}

// FuzzNodeResource: an object of node-a whose only owner is a Node with another UID is never admitted, and a response costs one live read of a
// Node at most.
func FuzzNodeResource(f *testing.F) {
	w := onNode(nncPolicy(missingNodeIsDenied), "live-uid", "live-uid")
	guard := newNodeResourceGuard(w.reader(f, w.cachedPolicies, w.cached, false), w.reader(f, w.livePolicies, w.live, true))
	f.Fuzz(func(t *testing.T, after []byte) {
		w.nodeReads.Store(0)
		w.policyReads.Store(0)
		request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, UserInfo: authenticationv1.UserInfo{Username: "someone"}, Name: "node-a",
			Resource: metav1.GroupVersionResource{Group: "acn.azure.com", Version: "v1alpha", Resource: "nodenetworkconfigs"}, Object: runtime.RawExtension{Raw: after}}}
		response := guard.Handle(context.WithValue(t.Context(), policyNameKey{}, "nnc"), request)
		if w.nodeReads.Load() > 1 || w.policyReads.Load() > 1 {
			t.Errorf("%d live reads of Nodes and %d of policies", w.nodeReads.Load(), w.policyReads.Load())
		}
		var object struct {
			metav1.TypeMeta `json:",inline"`
			Metadata        metav1.ObjectMeta `json:"metadata"`
		}
		if kjson.UnmarshalCaseSensitivePreserveInts(after, &object) != nil {
			return
		}
		owners := slices.DeleteFunc(object.Metadata.OwnerReferences, func(o metav1.OwnerReference) bool { return o.APIVersion != "v1" || o.Kind != "Node" })
		if object.Metadata.Name == "node-a" && !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == "live-uid" }) && response.Allowed {
			t.Errorf("%s is admitted", after)
		}
	})
}
