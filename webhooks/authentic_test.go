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
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// poolObject is the pool that the API server has.
func poolObject() client.Object {
	pool := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "10.10.0.0-24", UID: "pool-uid"}}
	pool.SetGroupVersionKind(poolRemovals.GroupVersionKind)
	return pool
}

// registeredRemoval is a removal of web-0's entry as the API server would send it about the pool of that UID.
func registeredRemoval(t *testing.T, uid string, change ...func(*admission.Request)) admission.Request {
	t.Helper()
	request := removal(t, authenticationv1.UserInfo{Username: "someone"}, poolRange, web0)
	request.Kind = metav1.GroupVersionKind{Group: poolRemovals.Group, Version: "v1alpha1", Kind: "IPPool"}
	request.Resource = metav1.GroupVersionResource{Group: poolRemovals.Group, Version: "v1alpha1", Resource: "ippools"}
	named := []byte(fmt.Sprintf(`"metadata":{"uid":%q,`, uid))
	request.OldObject.Raw = bytes.Replace(request.OldObject.Raw, []byte(`"metadata":{`), named, 1)
	for _, c := range change {
		c(&request)
	}
	return request
}

// An unauthenticated peer of the port learns nothing about pods, and causes no event, no series of a metric and no read of theirs.
func TestAStrangersReviewLearnsNothingAndChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		request admission.Request
		reads   int32
	}{
		"a pool without a UID":                   {request: registeredRemoval(t, "")},
		"a UID that is not the pool's":           {request: registeredRemoval(t, "guessed"), reads: 1},
		"a pool that does not exist":             {request: registeredRemoval(t, "pool-uid", renamed("10.99.0.0-24")), reads: 1},
		"a name that is not the object's":        {request: registeredRemoval(t, "pool-uid", func(r *admission.Request) { r.Name = "other" })},
		"another resource, as a metric's label":  {request: registeredRemoval(t, "pool-uid", func(r *admission.Request) { r.Resource.Resource = "series-of-a-stranger" })},
		"another group":                          {request: registeredRemoval(t, "pool-uid", func(r *admission.Request) { r.Resource.Group = "example.com" })},
		"another kind":                           {request: registeredRemoval(t, "pool-uid", func(r *admission.Request) { r.Kind.Kind = "Pod" })},
		"a subresource":                          {request: registeredRemoval(t, "pool-uid", func(r *admission.Request) { r.SubResource = "status" })},
		"an operation that is not registered":    {request: registeredRemoval(t, "pool-uid", func(r *admission.Request) { r.Operation = admissionv1.Create })},
		"no old object":                          {request: registeredRemoval(t, "pool-uid", func(r *admission.Request) { r.OldObject = runtime.RawExtension{} })},
		"no name, in an update":                  {request: registeredRemoval(t, "pool-uid", func(r *admission.Request) { r.Name = "" })},
		"an old object without a name":           {request: registeredRemoval(t, "pool-uid", renamed(""))},
		"an old object of another kind":          {request: registeredRemoval(t, "pool-uid", kinded("Pod"))},
		"an old object that is no object at all": {request: registeredRemoval(t, "pool-uid", func(r *admission.Request) { r.OldObject.Raw = []byte(`[]`) })},
	} {
		t.Run(name, func(t *testing.T) {
			c := onNodeA()
			guard, recorded := c.guarding(t)
			response := (&IPPoolReleaseValidator{guard}).Handle(t.Context(), tc.request)
			if response.Allowed || response.Result.Code != http.StatusServiceUnavailable {
				t.Errorf("got %+v, want a call that failed", response)
			}
			for _, secret := range []string{"uid-0", "node-a", "web-0", "deleted"} {
				if strings.Contains(response.Result.Message, secret) {
					t.Errorf("the response says %q: %s", secret, response.Result.Message)
				}
			}
			if got := c.reads.Load(); got != tc.reads || len(recorded) != 0 {
				t.Errorf("%d reads and %d events, want %d and none", got, len(recorded), tc.reads)
			}
		})
	}
	for _, resource := range releaseSeries(t) {
		if resource != "ippools" && resource != "overlappingrangeipreservations" {
			t.Errorf("a metric has the label resource=%q", resource)
		}
	}
}

func renamed(name string) func(*admission.Request) {
	return func(r *admission.Request) {
		r.OldObject.Raw = bytes.Replace(r.OldObject.Raw, []byte(r.Name), []byte(name), 1)
		r.Name = name
	}
}

func kinded(kind string) func(*admission.Request) {
	return func(r *admission.Request) {
		r.OldObject.Raw = bytes.Replace(r.OldObject.Raw, []byte(`"IPPool"`), []byte(`"`+kind+`"`), 1)
	}
}

// guarding is a guard as it is set up, for every caller.
func (c *cluster) guarding(t *testing.T) (*releaseGuard, <-chan string) {
	t.Helper()
	c.objects = append(c.objects, poolObject())
	guard, recorded := c.guard(t, configv1alpha1.ReleaseModeDeny)
	guard.authentic = newAuthenticator(guard.reader)
	return guard, recorded
}

// releaseSeries are the values of the label "resource" of what the manager serves.
func releaseSeries(t *testing.T) (values []string) {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if strings.HasPrefix(family.GetName(), metrics.Prefix+"unsafe_release") && label.GetName() == "resource" {
					values = append(values, label.GetValue())
				}
			}
		}
	}
	return values
}

func TestAReviewOfTheAPIServersIsJudgedAndItsObjectReadOnce(t *testing.T) {
	c := onNodeA()
	guard, recorded := c.guarding(t)
	validator := &IPPoolReleaseValidator{guard}
	checkRefused(t, validator.Handle(t.Context(), registeredRemoval(t, "pool-uid")))
	first := c.reads.Swap(0)
	checkRefused(t, validator.Handle(t.Context(), registeredRemoval(t, "pool-uid")))
	if again := c.reads.Load(); again != first-1 || len(recorded) != 1 {
		t.Errorf("%d reads at first and %d then, %d events; expected the pool to be read once, and one event", first, again, len(recorded))
	}
}

// Of a deletecollection the API server reviews each object, without a name.
func TestADeleteCollectionIsJudged(t *testing.T) {
	c := onNodeA()
	guard, _ := c.guarding(t)
	unnamed := func(r *admission.Request) {
		r.Operation, r.Name, r.Object = admissionv1.Delete, "", runtime.RawExtension{}
	}
	response := (&IPPoolReleaseValidator{guard}).Handle(t.Context(), registeredRemoval(t, "pool-uid", unnamed))
	checkRefused(t, response)
}

// Unknown is not false: a removal that cannot be judged is refused, and no failed call, which would let it pass.
func TestAnObjectThatCannotBeReadIsJudged(t *testing.T) {
	c := onNodeA()
	guard, _ := c.guarding(t)
	c.fail = map[reflect.Type]error{reflect.TypeFor[*metav1.PartialObjectMetadata](): errors.New("the API server does not respond")}
	checkRefused(t, (&IPPoolReleaseValidator{guard}).Handle(t.Context(), registeredRemoval(t, "pool-uid")))
	c.hang = true
	checkRefused(t, (&IPPoolReleaseValidator{guard}).Handle(t.Context(), registeredRemoval(t, "pool-uid")))
}

// The budgets count bytes and members, never seconds.
func TestAReviewBeyondItsBoundsIsNotDecoded(t *testing.T) {
	members := func(n int) string { return strings.Repeat("{},", n) }
	pool, finalizers := largestPool(16_000), strings.Repeat(`"a",`, 390_000)+`"a"`
	for name, tc := range map[string]struct {
		body     string
		passes   bool
		contains string
	}{
		"a pool of 16,000 entries, old and new":    {body: requestWith(`"oldObject":` + pool + `,"object":` + pool), passes: true},
		"annotations that are full of commas":      {body: requestWith(`"oldObject":{"a":"` + strings.Repeat(`,`, 1<<20) + `"}`), passes: true},
		"escaped quotes before commas":             {body: requestWith(`"oldObject":{"a":"\"` + strings.Repeat(`,`, 1<<20) + `"}`), passes: true},
		"two objects that are full of finalizers":  {body: requestWith(`"oldObject":{"a":[` + finalizers + `]},"object":{"a":[` + finalizers + `]}`), passes: true},
		"more members than two objects can have":   {body: requestWith(`"oldObject":{"a":[` + members(maxMembers) + `{}]}`), contains: errTooManyMembers.Error()},
		"an identity with thousands of values":     {body: requestWith(`"userInfo":{"extra":{"a":[` + strings.Repeat(`"",`, 30_000) + `""]}}`), contains: errUserTooLarge.Error()},
		"a body that is larger than its webhook's": {body: requestWith(`"oldObject":{"a":"` + strings.Repeat(`x`, maxPoolBytes) + `"}`), contains: "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			handled := false
			server := serve("test", maxPoolBytes, handler(func(context.Context, admission.Request) admission.Response {
				handled = true
				return admission.Allowed("")
			}))
			recorder := post(server, tc.body)
			if handled != tc.passes || !strings.Contains(recorder.Body.String(), tc.contains) {
				t.Errorf("handled: %t, HTTP %d, %.200s", handled, recorder.Code, recorder.Body)
			}
		})
	}
}

// largestPool has that many entries, each with the managed fields that an API server keeps of it.
func largestPool(entries int) string {
	var allocations, fields strings.Builder
	for i := range entries {
		fmt.Fprintf(&allocations, `"%d":{"id":"%032x","podref":"n/p%d"},`, i, i, i)
		fmt.Fprintf(&fields, `"f:%d":{},`, i)
	}
	return `{"metadata":{"managedFields":[{"fieldsV1":{` + fields.String() + `"f:x":{}}}]},"spec":{"allocations":{` + allocations.String() + `"x":{}}}}`
}

func requestWith(fields string) string {
	return strings.Replace(reviewOfPod, `"uid":"u1"`, `"uid":"u1",`+fields, 1)
}

func post(h http.Handler, body string) *httptest.ResponseRecorder {
	recorder, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/?timeout=100ms", strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(recorder, request)
	return recorder
}

// Large requests wait for each other, then fail; small ones are served meanwhile.
func TestRequestsAtOnceAreBoundedByTheirBytes(t *testing.T) {
	inside, done := make(chan struct{}), make(chan struct{})
	holding := serve("test", maxPoolBytes, handler(func(context.Context, admission.Request) admission.Response {
		inside <- struct{}{}
		<-done
		return admission.Allowed("")
	}))
	large := requestWith(`"oldObject":{"a":"` + strings.Repeat("x", maxPoolBytes-1<<10) + `"}`)
	const fit = largeBytesAtOnce / maxPoolBytes
	codes := make(chan int, fit)
	for range fit {
		go func() { codes <- post(holding, large).Code }()
		<-inside
	}
	beyond := post(holding, large)
	if beyond.Code != http.StatusServiceUnavailable || !strings.Contains(beyond.Body.String(), errBusy.Error()) {
		t.Errorf("one more than fit at once: HTTP %d, %s; want 503", beyond.Code, beyond.Body)
	}
	if small := post(serve("test", maxPoolBytes, responding(admission.Allowed(""))), reviewOfPod); small.Code != http.StatusOK {
		t.Errorf("a small request meanwhile: HTTP %d, %s; want a response", small.Code, small.Body)
	}
	close(done)
	for range fit {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("a request that fit: HTTP %d", code)
		}
	}
	if after := post(serve("test", maxPoolBytes, responding(admission.Allowed(""))), large); after.Code != http.StatusOK {
		t.Errorf("a large request afterwards: HTTP %d; want capacity again", after.Code)
	}
}

// TestBodiesThatDoNotComeKeepNoOtherRequestWaiting: as many clients declare small bodies, and send none, as the budget has room for.
func TestBodiesThatDoNotComeKeepNoOtherRequestWaiting(t *testing.T) {
	h := serve("test", maxPoolBytes, responding(admission.Allowed("")))
	reading, done := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	for range smallBytesAtOnce / smallRequest {
		body, rest := io.Pipe()
		request := httptest.NewRequest(http.MethodPost, "/?timeout=10s", io.MultiReader(readerFunc(func([]byte) (int, error) {
			reading <- struct{}{}
			return 0, io.EOF
		}), body))
		request.Header.Set("Content-Type", "application/json")
		request.ContentLength = smallRequest
		group.Go(func() { h.ServeHTTP(httptest.NewRecorder(), request) })
		group.Go(func() { <-done; _ = rest.Close() })
		<-reading
	}
	if response := post(h, reviewOfPod); response.Code != http.StatusOK {
		t.Errorf("a request of the API server meanwhile: HTTP %d, %s; want a response", response.Code, response.Body)
	}
	close(done)
	group.Wait()
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestTheWholeRequestReachesTheHandler(t *testing.T) {
	sent := admissionv1.AdmissionRequest{
		UID: "u", Name: "n", Namespace: "ns", Operation: admissionv1.Update, SubResource: "status", DryRun: new(true),
		Kind: metav1.GroupVersionKind{Group: "g", Version: "v", Kind: "K"}, Resource: metav1.GroupVersionResource{Group: "g", Version: "v", Resource: "ks"},
		UserInfo: authenticationv1.UserInfo{Username: "user", UID: "1", Groups: []string{"group"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}},
		Object:   runtime.RawExtension{Raw: []byte(`{"a":1}`)}, OldObject: runtime.RawExtension{Raw: []byte(`{"a":2}`)},
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &sent})
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeReview(body)
	if err != nil || !reflect.DeepEqual(*got, sent) {
		t.Errorf("got %+v, %v, want %+v", got, err, sent)
	}
}

// A caller can have only so many lines logged.
func TestFailedCallsAreLoggedNowAndThen(t *testing.T) {
	lines := &countingSink{}
	server := serve("test", maxPoolBytes, responding(admission.Allowed(""))).(*server)
	server.log = logr.New(lines)
	for range 1000 {
		post(server, "{")
	}
	if lines.errors > 2*failureBurst {
		t.Errorf("%d lines about 1000 failed calls", lines.errors)
	}
}

type countingSink struct {
	logr.LogSink
	errors int
}

func (s *countingSink) Init(logr.RuntimeInfo)       {}
func (s *countingSink) Enabled(int) bool            { return true }
func (s *countingSink) Error(error, string, ...any) { s.errors++ }
