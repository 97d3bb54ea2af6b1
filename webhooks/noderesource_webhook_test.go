// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

var errUnreachable = errors.New("the API server does not respond")

// nodeWorld is what a guard can read, and how the reads fail.
type nodeWorld struct {
	// policies in the cache and live.
	cachedPolicies, livePolicies []client.Object
	failPolicy                   error
	// The Nodes, UID by name, in the cache and live; a UID of "!" cannot be read.
	cached, live map[string]types.UID
	// hang makes every live read wait for the end of its context.
	hang bool
	// nodeReads and policyReads count the live ones.
	nodeReads, policyReads atomic.Int32
}

// onNode has the policy, and one Node under the name node-a, as the cache and the API server know it; "" is none.
func onNode(policy *v1alpha1.NodeResourcePolicy, cached, live types.UID) *nodeWorld {
	w := &nodeWorld{cached: map[string]types.UID{}, live: map[string]types.UID{}}
	w.cachedPolicies, w.livePolicies = []client.Object{policy}, []client.Object{policy}
	if cached != "" {
		w.cached["node-a"] = cached
	}
	if live != "" {
		w.live["node-a"] = live
	}
	return w
}

func (w *nodeWorld) reader(t testing.TB, policies []client.Object, nodes map[string]types.UID, isLive bool) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(policies...)
	for name, uid := range nodes {
		builder.WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}})
	}
	return builder.WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, next client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := w.read(ctx, o, nodes[key.Name], isLive); err != nil {
				return err
			}
			return next.Get(ctx, key, o, opts...)
		},
	}).Build()
}

// read counts a read, and fails it where it has to.
func (w *nodeWorld) read(ctx context.Context, object client.Object, uid types.UID, isLive bool) error {
	if _, isPolicy := object.(*v1alpha1.NodeResourcePolicy); isPolicy {
		if !isLive {
			return nil
		}
		w.policyReads.Add(1)
		return w.failPolicy
	}
	if isLive {
		w.nodeReads.Add(1)
		if w.hang {
			<-ctx.Done()
			return ctx.Err()
		}
	}
	if uid == "!" {
		return errUnreachable
	}
	return nil
}

// ask sends a review to the webhook, as the API server does. Without an AdmissionReview in the response it returns nil.
func (w *nodeWorld) ask(t *testing.T, path string, request *admissionv1.AdmissionRequest) (int, string, *admissionv1.AdmissionResponse) {
	t.Helper()
	guard := newNodeResourceGuard(w.reader(t, w.cachedPolicies, w.cached, false), w.reader(t, w.livePolicies, w.live, true))
	mux := http.NewServeMux()
	mux.Handle(nodepolicy.PathPrefix, guard.serve())
	server := httptest.NewServer(mux)
	defer server.Close()
	request.UID = "u1"
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request})
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Post(server.URL+path+"?timeout=1s", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(reply, &review); err != nil || review.Response == nil {
		return response.StatusCode, string(reply), nil
	}
	return response.StatusCode, "", review.Response
}

const guardedPath = nodepolicy.PathPrefix + "nnc"

// nncPolicy guards NodeNetworkConfigs; change makes another one of it.
func nncPolicy(change ...func(*v1alpha1.NodeResourcePolicySpec)) *v1alpha1.NodeResourcePolicy {
	p := &v1alpha1.NodeResourcePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "nnc", UID: "policy-uid", Generation: 1},
		Spec: v1alpha1.NodeResourcePolicySpec{
			Resource:    v1alpha1.GuardedResource{Group: "acn.azure.com", Resource: "nodenetworkconfigs", Versions: []string{"*"}},
			NodeUID:     v1alpha1.NodeUIDSource{Presence: v1alpha1.UIDRequired},
			Action:      v1alpha1.PolicyDeny,
			MissingNode: v1alpha1.MissingNodeAllow, FailurePolicy: v1alpha1.PolicyIgnore, TimeoutSeconds: 2,
			ExemptUsers: []string{"system:serviceaccount:kube-system:repair"}, Stale: v1alpha1.StaleReport,
		},
	}
	for _, c := range change {
		c(&p.Spec)
	}
	return p
}

func withAction(action v1alpha1.PolicyAction) func(*v1alpha1.NodeResourcePolicySpec) {
	return func(s *v1alpha1.NodeResourcePolicySpec) { s.Action = action }
}

func missingNodeIsDenied(s *v1alpha1.NodeResourcePolicySpec) {
	s.MissingNode = v1alpha1.MissingNodeDeny
}

func nodeNameFromSpec(s *v1alpha1.NodeResourcePolicySpec) {
	s.NodeName.FieldPath, s.Resource.Versions = "spec.nodeName", []string{"v1alpha"}
}

func brokenExpression(s *v1alpha1.NodeResourcePolicySpec) {
	s.NodeName.Expression, s.Resource.Versions = "self.spec.(", []string{"v1alpha"}
}

func uidIfPresent(s *v1alpha1.NodeResourcePolicySpec) { s.NodeUID.Presence = v1alpha1.UIDIfPresent }

func uidAnnotated(s *v1alpha1.NodeResourcePolicySpec) { s.NodeUID.Annotation = "example.com/node-uid" }

type fields = map[string]any

// nnc is an object of that resource with the name node-a; change makes another one of it.
func nnc(change ...func(metadata, object fields)) runtime.RawExtension {
	metadata := fields{"namespace": "kube-system", "name": "node-a", "uid": "nnc-uid", "resourceVersion": "7"}
	object := fields{"apiVersion": "acn.azure.com/v1alpha", "kind": "NodeNetworkConfig", "metadata": metadata,
		"spec": fields{"requestedIPCount": 16}}
	for _, c := range change {
		c(metadata, object)
	}
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return runtime.RawExtension{Raw: raw}
}

// owned adds an owner reference to a Node.
func owned(name, uid string) func(metadata, object fields) {
	return ownedBy(fields{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": true})
}

func ownedBy(reference fields) func(metadata, object fields) {
	return func(metadata, _ fields) {
		owners, _ := metadata["ownerReferences"].([]fields)
		metadata["ownerReferences"] = append(owners, reference)
	}
}

func named(key string, value any) func(metadata, object fields) {
	return func(metadata, _ fields) { metadata[key] = value }
}

func spec(key string, value any) func(metadata, object fields) {
	return func(_, object fields) { object["spec"].(fields)[key] = value }
}

var (
	mine   = owned("node-a", "live")
	stale  = owned("node-a", "old")
	asked  = spec("requestedIPCount", 32)
	ending = named("deletionTimestamp", "2026-01-01T00:00:00Z")
	held   = named("finalizers", []string{"example.com/held"})
)

func createOf(object runtime.RawExtension) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: "kube-system", Name: "node-a", Object: object,
		Kind:     metav1.GroupVersionKind{Group: "acn.azure.com", Version: "v1alpha", Kind: "NodeNetworkConfig"},
		Resource: metav1.GroupVersionResource{Group: "acn.azure.com", Version: "v1alpha", Resource: "nodenetworkconfigs"},
		UserInfo: authenticationv1.UserInfo{Username: "operator"},
	}
}

func updateOf(before, after runtime.RawExtension) *admissionv1.AdmissionRequest {
	r := createOf(after)
	r.Operation, r.OldObject = admissionv1.Update, before
	return r
}

func of(request *admissionv1.AdmissionRequest, change func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionRequest {
	change(request)
	return request
}

func toStatus(r *admissionv1.AdmissionRequest) { r.SubResource = "status" }

// nodeCase is a write, and what is to come of it.
type nodeCase struct {
	world   *nodeWorld
	request *admissionv1.AdmissionRequest
	path    string
	// code is 200 for an allowed write, 403 or 422 for a refusal, 503 for a call that has to fail.
	code int
	// reads is how many Nodes are read live.
	reads int32
	// contains is part of the refusal or of the failure.
	contains []string
}

func (tc *nodeCase) check(t *testing.T) {
	t.Helper()
	if tc.path == "" {
		tc.path = guardedPath
	}
	status, text, response := tc.world.ask(t, tc.path, tc.request)
	code := status
	if response != nil {
		code, text = int(response.Result.Code), response.Result.Message
		if status != http.StatusOK || response.Allowed != (code == http.StatusOK) || len(response.Warnings) > 0 {
			t.Errorf("HTTP %d, got %+v", status, response)
		}
	}
	if code != tc.code {
		t.Errorf("got %d %q, want %d", code, text, tc.code)
	}
	for _, part := range tc.contains {
		if !strings.Contains(text, part) {
			t.Errorf("got %q, want %q in it", text, part)
		}
	}
	if got := tc.world.nodeReads.Load(); got != tc.reads {
		t.Errorf("%d live reads of the Node, want %d", got, tc.reads)
	}
}

func TestWritesThatNeedNoLiveRead(t *testing.T) {
	exempt := func(r *admissionv1.AdmissionRequest) {
		r.UserInfo.Username = "system:serviceaccount:kube-system:repair"
	}
	for name, tc := range map[string]*nodeCase{
		"an update whose references are those of the cached Node": {world: onNode(nncPolicy(), "live", "!"), request: updateOf(nnc(mine), nnc(mine, asked))},
		"the same of the status":                                  {world: onNode(nncPolicy(), "live", "!"), request: of(updateOf(nnc(mine), nnc(mine, asked)), toStatus)},
		"a reference is dropped":                                  {world: onNode(nncPolicy(), "live", "!"), request: updateOf(nnc(stale), nnc())},
		"a reference is dropped where none is required":           {world: onNode(nncPolicy(uidIfPresent), "live", "!"), request: updateOf(nnc(stale), nnc())},
		"no reference, where there was none":                      {world: onNode(nncPolicy(uidIfPresent), "live", "!"), request: updateOf(nnc(), nnc(asked))},
		"a finalizer of a stale object is dropped":                {world: onNode(nncPolicy(), "live", "!"), request: updateOf(nnc(stale, held), nnc(stale))},
		"a stale object that is being deleted":                    {world: onNode(nncPolicy(), "live", "!"), request: updateOf(nnc(stale, held, ending), nnc(stale, ending, held, asked))},
		"a deletion": {world: onNode(nncPolicy(), "live", "!"), request: of(updateOf(nnc(stale), runtime.RawExtension{}), func(r *admissionv1.AdmissionRequest) {
			r.Operation = admissionv1.Delete
		})},
		"a stale object by an exempt user": {world: onNode(nncPolicy(), "live", "!"), request: of(createOf(nnc(stale)), exempt)},
		"an object that speaks for no node": {world: onNode(nncPolicy(nodeNameFromSpec), "live", "!"),
			request: createOf(nnc(stale, spec("nodeName", "")))},
		"a name that no Node can have": {world: onNode(nncPolicy(nodeNameFromSpec), "live", "!"),
			request: createOf(nnc(owned("a/b", "old"), spec("nodeName", "a/b")))},
		"an unreadable object that is being deleted": {world: onNode(nncPolicy(nodeNameFromSpec), "live", "!"),
			request: updateOf(nnc(spec("nodeName", 1), held, ending), nnc(spec("nodeName", 1), held, ending, asked))},
		"an unreadable object from which something is dropped": {world: onNode(nncPolicy(nodeNameFromSpec), "live", "!"),
			request: updateOf(nnc(spec("nodeName", 1), stale), nnc(spec("nodeName", 1)))},
	} {
		t.Run(name, func(t *testing.T) {
			tc.code = http.StatusOK
			tc.check(t)
		})
	}
}

func TestWritesThatALiveNodeAllows(t *testing.T) {
	for name, tc := range map[string]*nodeCase{
		"a creation": {world: onNode(nncPolicy(), "live", "live"), request: createOf(nnc(mine))},
		"a repair":   {world: onNode(nncPolicy(), "live", "live"), request: updateOf(nnc(stale), nnc(mine))},
		"an update while the cache has the old Node": {world: onNode(nncPolicy(), "old", "live"), request: updateOf(nnc(mine), nnc(mine, asked))},
		"an update while the cache has no Node":      {world: onNode(nncPolicy(), "", "live"), request: updateOf(nnc(mine), nnc(mine, asked))},
		"an update while the cache cannot be read":   {world: onNode(nncPolicy(), "!", "live"), request: updateOf(nnc(mine), nnc(mine, asked))},
		"an update whose old object is unreadable":   {world: onNode(nncPolicy(nodeNameFromSpec), "live", "live"), request: updateOf(nnc(mine, spec("nodeName", 1)), nnc(mine, spec("nodeName", "node-a")))},
		"an update without an old object":            {world: onNode(nncPolicy(), "live", "live"), request: updateOf(runtime.RawExtension{}, nnc(mine))},
		"a creation before the Node, which may be":   {world: onNode(nncPolicy(), "", ""), request: createOf(nnc(stale))},
		"an update after the Node, which may be":     {world: onNode(nncPolicy(), "", ""), request: updateOf(nnc(stale), nnc(stale, asked))},
		"the live UID that is dropped with a change": {world: onNode(nncPolicy(uidIfPresent), "live", "live"), request: updateOf(nnc(mine), nnc(asked))},
		"a live annotation that is dropped": {world: onNode(nncPolicy(uidIfPresent, uidAnnotated), "live", "live"),
			request: updateOf(nnc(named("annotations", fields{"example.com/node-uid": "live"})), nnc(asked))},
		"an update by the Node of a cache that is old": {world: onNode(nncPolicy(missingNodeIsDenied), "old", "live"), request: updateOf(nnc(stale), nnc(mine))},
	} {
		t.Run(name, func(t *testing.T) {
			tc.code, tc.reads = http.StatusOK, 1
			tc.check(t)
		})
	}
}

func TestI4WritesThatALiveNodeRefuses(t *testing.T) {
	denies := func() *v1alpha1.NodeResourcePolicy { return nncPolicy(missingNodeIsDenied) }
	claim := ownedBy(fields{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "node-a", "uid": "ds"})
	for name, tc := range map[string]*nodeCase{
		"a stale creation": {world: onNode(nncPolicy(), "live", "live"), request: createOf(nnc(stale)),
			contains: []string{"NodeResourcePolicy nnc: StaleNodeUID: NodeNetworkConfig kube-system/node-a", `"node-a"`, `"old"`, `"live"`, "Delete the object"}},
		"a creation that fits only the cache": {world: onNode(nncPolicy(), "old", "live"), request: createOf(nnc(stale)), contains: []string{"StaleNodeUID"}},
		"a change to what fits only the cache": {world: onNode(nncPolicy(), "old", "live"), request: updateOf(nnc(mine), nnc(stale)),
			contains: []string{"StaleNodeUID"}},
		"the spec of a stale object":   {world: onNode(nncPolicy(), "live", "live"), request: updateOf(nnc(stale), nnc(stale, asked)), contains: []string{"StaleNodeUID"}},
		"the status of a stale object": {world: onNode(nncPolicy(), "live", "live"), request: of(updateOf(nnc(stale), nnc(stale, asked)), toStatus), contains: []string{"StaleNodeUID"}},
		"a label of a stale object": {world: onNode(nncPolicy(), "live", "live"),
			request: updateOf(nnc(stale), nnc(stale, named("labels", fields{"a": "b"}))), contains: []string{"StaleNodeUID"}},
		"a creation without a UID":                   {world: onNode(nncPolicy(), "live", "live"), request: createOf(nnc()), contains: []string{"NodeUIDMissing"}},
		"a creation with other owners only":          {world: onNode(nncPolicy(), "live", "live"), request: createOf(nnc(claim)), contains: []string{"NodeUIDMissing"}},
		"one reference right, another stale":         {world: onNode(nncPolicy(), "live", "live"), request: createOf(nnc(mine, stale)), contains: []string{"StaleNodeUID"}},
		"one reference right, another of other name": {world: onNode(nncPolicy(), "live", "live"), request: createOf(nnc(mine, owned("node-b", "b"))), contains: []string{"NodeNameMismatch"}},
		"no Node, which the policy denies":           {world: onNode(denies(), "", ""), request: createOf(nnc(stale)), contains: []string{"NodeMissing"}},
		"a Node that only the cache has":             {world: onNode(denies(), "old", ""), request: createOf(nnc(stale)), contains: []string{"NodeMissing"}},
		"a creation that says that it is deleted":    {world: onNode(nncPolicy(), "live", "live"), request: createOf(nnc(stale, ending)), contains: []string{"StaleNodeUID"}},
		"a policy that only the API server has":      {world: onlyLive(onNode(nncPolicy(), "live", "live")), request: createOf(nnc(stale)), contains: []string{"StaleNodeUID"}},
		"a dry run":                                  {world: onNode(nncPolicy(), "live", "live"), request: of(createOf(nnc(stale)), func(r *admissionv1.AdmissionRequest) { r.DryRun = new(true) }), contains: []string{"StaleNodeUID"}},
		"an update that removes a finalizer, too":    {world: onNode(nncPolicy(), "live", "live"), request: updateOf(nnc(stale, held), nnc(stale, asked)), contains: []string{"StaleNodeUID"}},
		"a stale UID that is dropped with a change": {world: onNode(nncPolicy(uidIfPresent), "live", "live"), request: updateOf(nnc(stale), nnc(asked)),
			contains: []string{"StaleNodeUID", `carried, until this write drops it and changes more, UID "old"`, `"live"`, "Delete the object"}},
		"the same of the status": {world: onNode(nncPolicy(uidIfPresent), "live", "live"), request: of(updateOf(nnc(stale), nnc(asked)), toStatus), contains: []string{"StaleNodeUID"}},
		"a stale annotation that is dropped": {world: onNode(nncPolicy(uidIfPresent, uidAnnotated), "live", "live"),
			request: updateOf(nnc(named("annotations", fields{"example.com/node-uid": "old"})), nnc()), contains: []string{"StaleNodeUID", `annotation "example.com/node-uid"`}},
		"an object of another version of the kind":    {world: onNode(nncPolicy(), "live", "live"), request: of(createOf(nnc(stale)), func(r *admissionv1.AdmissionRequest) { r.Resource.Version = "v1" }), contains: []string{"StaleNodeUID"}},
		"a stale object by a user like an exempt one": {world: onNode(nncPolicy(), "live", "live"), request: of(createOf(nnc(stale)), func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = "repair" }), contains: []string{"StaleNodeUID"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.code, tc.reads = http.StatusForbidden, 1
			tc.check(t)
		})
	}
}

// onlyLive takes the policy out of the cache.
func onlyLive(w *nodeWorld) *nodeWorld {
	w.cachedPolicies = nil
	return w
}

func TestAnObjectThatCannotBeReadIsRefusedAsInvalid(t *testing.T) {
	for name, request := range map[string]*admissionv1.AdmissionRequest{
		"created":                         createOf(nnc(mine, spec("nodeName", 1))),
		"created as if deleted":           createOf(nnc(mine, spec("nodeName", 1), ending)),
		"updated":                         updateOf(nnc(mine, spec("nodeName", "node-a")), nnc(mine, spec("nodeName", 1))),
		"updated, and a finalizer is off": updateOf(nnc(mine, spec("nodeName", "node-a"), held), nnc(mine, spec("nodeName", 1))),
	} {
		t.Run(name, func(t *testing.T) {
			(&nodeCase{world: onNode(nncPolicy(nodeNameFromSpec), "live", "live"), request: request, code: http.StatusUnprocessableEntity,
				contains: []string{"NodeResourcePolicy nnc: NodeUnreadable: NodeNetworkConfig kube-system/node-a could not be read", "spec.nodeName"}}).check(t)
		})
	}
}

// TestI5AnUndecidedReviewIsAFailedCall: no AdmissionReview, so that failurePolicy decides.
func TestI5AnUndecidedReviewIsAFailedCall(t *testing.T) {
	hanging := onNode(nncPolicy(), "live", "live")
	hanging.hang = true
	noPolicy := onlyLive(onNode(nncPolicy(), "live", "live"))
	noPolicy.failPolicy = errUnreachable
	invalid := nncPolicy(brokenExpression)
	about := func(group, resource, subresource string) func(*admissionv1.AdmissionRequest) {
		return func(r *admissionv1.AdmissionRequest) {
			r.Resource.Group, r.Resource.Resource, r.SubResource = group, resource, subresource
		}
	}
	noStatus := nncPolicy(func(s *v1alpha1.NodeResourcePolicySpec) { s.Resource.Status = new(false) })
	for name, tc := range map[string]*nodeCase{
		"the Node cannot be read":              {world: onNode(nncPolicy(), "live", "!"), request: createOf(nnc(mine)), reads: 1, contains: []string{"nnc", errUnreachable.Error()}},
		"the Node of a stale object":           {world: onNode(nncPolicy(), "live", "!"), request: createOf(nnc(stale)), reads: 1, contains: []string{errUnreachable.Error()}},
		"the Node of a missing one":            {world: onNode(nncPolicy(missingNodeIsDenied), "", "!"), request: createOf(nnc(stale)), reads: 1, contains: []string{errUnreachable.Error()}},
		"the read hangs":                       {world: hanging, request: createOf(nnc(stale)), reads: 1, contains: []string{"deadline"}},
		"the policy cannot be read":            {world: noPolicy, request: createOf(nnc(stale)), contains: []string{"nnc", errUnreachable.Error()}},
		"the policy cannot work":               {world: onNode(invalid, "live", "live"), request: createOf(nnc(stale)), contains: []string{"ExpressionInvalid", "nodeName.expression"}},
		"the path names no policy":             {world: onNode(nncPolicy(), "live", "live"), request: createOf(nnc(stale)), path: nodepolicy.PathPrefix, contains: []string{"NodeResourcePolicy"}},
		"the path is longer":                   {world: onNode(nncPolicy(), "live", "live"), request: createOf(nnc(stale)), path: guardedPath + "/x", contains: []string{"nnc/x"}},
		"the path is no name":                  {world: onNode(nncPolicy(), "live", "live"), request: createOf(nnc(stale)), path: nodepolicy.PathPrefix + "NNC", contains: []string{"NNC"}},
		"the call is about another group":      {world: onNode(nncPolicy(), "live", "live"), request: of(createOf(nnc(stale)), about("x.com", "nodenetworkconfigs", "")), contains: []string{"nodenetworkconfigs.x.com"}},
		"the call is about another resource":   {world: onNode(nncPolicy(), "live", "live"), request: of(createOf(nnc(stale)), about("acn.azure.com", "others", "")), contains: []string{"others.acn.azure.com"}},
		"the call is about another version":    {world: onNode(nncPolicy(nodeNameFromSpec), "live", "live"), request: of(createOf(nnc(stale)), func(r *admissionv1.AdmissionRequest) { r.Resource.Version = "v1" }), contains: []string{"version v1", "v1alpha"}},
		"the call is about a scale":            {world: onNode(nncPolicy(), "live", "live"), request: of(createOf(nnc(stale)), about("acn.azure.com", "nodenetworkconfigs", "scale")), contains: []string{"nodenetworkconfigs.acn.azure.com/scale"}},
		"the call is about an unguarded state": {world: onNode(noStatus, "live", "live"), request: of(updateOf(nnc(stale), nnc(stale, asked)), toStatus), contains: []string{"nodenetworkconfigs.acn.azure.com/status"}},
		"there is no object":                   {world: onNode(nncPolicy(), "live", "live"), request: createOf(runtime.RawExtension{}), contains: []string{"no object"}},
		"the object is none":                   {world: onNode(nncPolicy(), "live", "live"), request: createOf(runtime.RawExtension{Raw: []byte(`{"kind":1}`)}), contains: []string{"decoding the object"}},
		"the old object is none":               {world: onNode(nncPolicy(), "live", "live"), request: updateOf(runtime.RawExtension{Raw: []byte(`{"kind":1}`)}, nnc(mine)), contains: []string{"decoding the old object"}},
		"the operation is unknown":             {world: onNode(nncPolicy(), "live", "live"), request: of(createOf(nnc(mine)), func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Connect }), reads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			tc.code = http.StatusServiceUnavailable
			tc.contains = append(tc.contains, "holdfast could not tell")
			tc.check(t)
		})
	}
}

func TestAnEntryOutlivesItsPolicyForAMoment(t *testing.T) {
	w := onNode(nncPolicy(), "live", "live")
	w.cachedPolicies, w.livePolicies = nil, nil
	(&nodeCase{world: w, request: createOf(nnc(stale)), code: http.StatusOK}).check(t)
	if got := w.policyReads.Load(); got != 1 {
		t.Errorf("%d live reads of the policy, want 1: what the cache lacks may be there", got)
	}
	cached := onNode(nncPolicy(), "live", "live")
	(&nodeCase{world: cached, request: createOf(nnc(mine)), code: http.StatusOK, reads: 1}).check(t)
	if got := cached.policyReads.Load(); got != 0 {
		t.Errorf("%d live reads of a policy that the cache has", got)
	}
}

// TestI6ACachedNodeMayOnlyAllow tries every state of a Node in the cache and the API server.
func TestI6ACachedNodeMayOnlyAllow(t *testing.T) {
	writes := map[string]func() *admissionv1.AdmissionRequest{
		"create":    func() *admissionv1.AdmissionRequest { return createOf(nnc(mine)) },
		"unchanged": func() *admissionv1.AdmissionRequest { return updateOf(nnc(mine), nnc(mine, asked)) },
		"changed":   func() *admissionv1.AdmissionRequest { return updateOf(nnc(stale), nnc(mine)) },
	}
	byLive := map[types.UID]int{"live": http.StatusOK, "": http.StatusForbidden, "other": http.StatusForbidden, "!": http.StatusServiceUnavailable}
	for write, request := range writes {
		for _, cached := range []types.UID{"live", "", "other", "!"} {
			for live, code := range byLive {
				t.Run(fmt.Sprintf("%s, cached %q, live %q", write, cached, live), func(t *testing.T) {
					tc := nodeCase{world: onNode(nncPolicy(missingNodeIsDenied), cached, live), request: request(), code: code, reads: 1}
					if write == "unchanged" && cached == "live" {
						tc.code, tc.reads = http.StatusOK, 0
					}
					tc.check(t)
				})
			}
		}
	}
}

func TestWarnAndAuditNeverStopAWrite(t *testing.T) {
	unreadable := func() *admissionv1.AdmissionRequest { return createOf(nnc(spec("nodeName", 1))) }
	withNode := func() *admissionv1.AdmissionRequest { return createOf(nnc(stale, spec("nodeName", "node-a"))) }
	fits := func() *admissionv1.AdmissionRequest { return createOf(nnc(mine, spec("nodeName", "node-a"))) }
	for name, tc := range map[string]struct {
		live    types.UID
		request func() *admissionv1.AdmissionRequest
		reason  string
	}{
		"a stale object":             {"live", withNode, "StaleNodeUID"},
		"a Node that cannot be read": {"!", withNode, "ObservationFailed"},
		"an object that cannot":      {"live", unreadable, "NodeUnreadable"},
		"nothing to object to":       {"live", fits, ""},
	} {
		for _, action := range []v1alpha1.PolicyAction{v1alpha1.PolicyWarn, v1alpha1.PolicyAudit} {
			t.Run(string(action)+": "+name, func(t *testing.T) {
				_, _, response := onNode(nncPolicy(nodeNameFromSpec, withAction(action)), "live", tc.live).ask(t, guardedPath, tc.request())
				if response == nil || !response.Allowed {
					t.Fatalf("got %+v, want a permit", response)
				}
				if want := action == v1alpha1.PolicyWarn && tc.reason != ""; want != (len(response.Warnings) == 1) {
					t.Errorf("got warnings %q", response.Warnings)
				}
				if got := response.AuditAnnotations["reason"]; got != tc.reason {
					t.Errorf("got annotations %q, want reason %q", response.AuditAnnotations, tc.reason)
				}
				if tc.reason == "" {
					return
				}
				for _, text := range append(response.Warnings, response.AuditAnnotations["message"]) {
					if !strings.HasPrefix(text, "NodeResourcePolicy nnc: "+tc.reason+": ") {
						t.Errorf("got %q, want it to name policy and reason", text)
					}
				}
			})
		}
	}
}

func TestWarnAndAuditOfAPolicyThatCannotWorkPassToo(t *testing.T) {
	invalid := nncPolicy(withAction(v1alpha1.PolicyWarn), brokenExpression)
	_, _, response := onNode(invalid, "live", "live").ask(t, guardedPath, createOf(nnc(stale)))
	if response == nil || !response.Allowed || len(response.Warnings) != 1 || !strings.Contains(response.Warnings[0], "ExpressionInvalid") {
		t.Errorf("got %+v, want a permit with a warning that says what is wrong with the policy", response)
	}
}

func TestRefusalsAreAudited(t *testing.T) {
	_, _, response := onNode(nncPolicy(), "live", "live").ask(t, guardedPath, createOf(nnc(stale)))
	if response == nil || response.Result.Reason != metav1.StatusReasonForbidden {
		t.Fatalf("got %+v, want a refusal of reason Forbidden", response)
	}
	want := map[string]string{"reason": "StaleNodeUID", "message": response.Result.Message}
	if diff := cmp.Diff(want, response.AuditAnnotations); diff != "" {
		t.Errorf("audit annotations (-want +got):\n%s", diff)
	}
}
