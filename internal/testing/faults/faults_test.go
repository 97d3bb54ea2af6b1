// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// server answers every read and write with one ConfigMap and remembers what reached it.
type server struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Method)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"a": "b"}})
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) reached() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

// clientOf is a client that would rather have protobuf, as the manager's.
func clientOf(t *testing.T, url string, wrap func(http.RoundTripper) http.RoundTripper) kubernetes.Interface {
	t.Helper()
	config := &rest.Config{Host: url, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf,
		AcceptContentTypes: runtime.ContentTypeProtobuf + ",application/json"}}
	config.Wrap(wrap)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// once gives the first call one kind of fault.
func once(kind Kind) func(Call) Kind {
	var mu sync.Mutex
	return func(Call) Kind {
		mu.Lock()
		defer mu.Unlock()
		now := kind
		kind = None
		return now
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestAWriteFailsAsItsKindSays(t *testing.T) {
	nothing := func(error) bool { return false }
	for name, tc := range map[string]struct {
		kind    Kind
		is      func(error) bool
		reached int
	}{
		"a conflict":                              {Conflict, apierrors.IsConflict, 0},
		"an invalid object":                       {Invalid, apierrors.IsInvalid, 0},
		"an internal error":                       {InternalError, apierrors.IsInternalError, 0},
		"a reset before the server saw anything":  {ResetBefore, utilnet.IsConnectionReset, 0},
		"a reset after the server has written":    {ResetAfter, utilnet.IsConnectionReset, 1},
		"a time-out after the server has written": {TimeoutAfter, isTimeout, 1},
		"no fault": {None, nothing, 1},
		"too many requests, which client-go sends again": {TooManyRequests, nothing, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			f := &Faults{Choose: once(tc.kind), RetryAfter: time.Nanosecond}
			client := clientOf(t, s.URL, f.Wrap)
			_, err := client.CoreV1().ConfigMaps("ns").Patch(t.Context(), "name", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
			if wanted := !tc.is(nil) && tc.kind != None && tc.kind != TooManyRequests; (err != nil) != wanted || (err != nil && !tc.is(err)) {
				t.Errorf("got the error %v", err)
			}
			if got := s.reached(); got != tc.reached {
				t.Errorf("%d calls reached the server, expected %d", got, tc.reached)
			}
		})
	}
}

func TestTooManyRequestsAsksToWait(t *testing.T) {
	f := &Faults{Choose: once(TooManyRequests)}
	response, err := f.Wrap(http.DefaultTransport).RoundTrip(httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/a/pods/b", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Retry-After"); got != "1" || response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("got %s and Retry-After %q", response.Status, got)
	}
}

func TestAReadIsNeverAConflict(t *testing.T) {
	for name, tc := range map[string]struct {
		call Call
		want []Kind
	}{
		"a read":                    {callOf(http.MethodGet, "/api/v1/nodes/a"), []Kind{TooManyRequests, InternalError, ResetBefore, TimeoutAfter}},
		"a watch":                   {callOf(http.MethodGet, "/api/v1/nodes?watch=true"), []Kind{TooManyRequests, InternalError, ResetBefore}},
		"discovery":                 {callOf(http.MethodGet, "/apis"), []Kind{TooManyRequests, InternalError, ResetBefore, TimeoutAfter}},
		"a write of a subresource":  {callOf(http.MethodPatch, "/api/v1/namespaces/a/pods/b/status"), Kinds(callOf(http.MethodDelete, "/api/v1/nodes/a"))},
		"a write of many at a time": {callOf(http.MethodDelete, "/api/v1/nodes"), Kinds(callOf(http.MethodPost, "/api/v1/nodes"))},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Kinds(tc.call)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func callOf(method, target string) Call { return CallOf(httptest.NewRequest(method, target, nil)) }

func TestACallIsReadAsTheAPIServerReadsIt(t *testing.T) {
	got := callOf(http.MethodPatch, "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools/10.0.0.0-24?fieldManager=x")
	want := Call{Verb: "patch", Namespace: "kube-system", Name: "10.0.0.0-24", Path: "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools/10.0.0.0-24"}
	want.Resource.Group, want.Resource.Resource = "whereabouts.cni.cncf.io", "ippools"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// outcome is what a seed does to so many patches of a record, with reads of something else in between.
func outcome(seed uint64, record string, between int) []Kind {
	choose := Randomly(seed, 0.25, nil)
	var kinds []Kind
	for range 400 {
		kinds = append(kinds, choose(callOf(http.MethodPatch, "/apis/holdfast.dev/v1alpha1/ipallocations/"+record)))
		for range between {
			choose(callOf(http.MethodGet, "/api/v1/nodes/a"))
		}
	}
	return kinds
}

func TestASeedDecidesWhateverComesInBetween(t *testing.T) {
	first := outcome(7, "0e5a9d5e-3a1f-4a57-9d4c-ff8f3c3c6d51", 0)
	if diff := cmp.Diff(first, outcome(7, "7b1c8b0e-90aa-4f0e-8b16-0c7bd2a2d0f4", 3)); diff != "" {
		t.Errorf("the same seed gave something else: %s", diff)
	}
	if cmp.Equal(first, outcome(8, "0e5a9d5e-3a1f-4a57-9d4c-ff8f3c3c6d51", 0)) {
		t.Error("another seed gave the same")
	}
	counts := map[Kind]int{}
	for _, kind := range first {
		counts[kind]++
	}
	if counts[None] < 270 || counts[None] > 330 {
		t.Errorf("%d of 400 calls went through, expected about three quarters", counts[None])
	}
	for _, kind := range Kinds(callOf(http.MethodPatch, "/api/v1/nodes/a")) {
		if counts[kind] == 0 {
			t.Errorf("%q never happened", kind)
		}
	}
}

func TestWhatIsExemptGoesThroughAndFaultsAreLogged(t *testing.T) {
	s := newServer(t)
	f := &Faults{Choose: Randomly(1, 1, func(c Call) bool { return c.Resource.Resource != "leases" })}
	transport := f.Wrap(http.DefaultTransport)
	for _, path := range []string{"/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "/api/v1/nodes/a"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := transport.RoundTrip(r); err == nil {
			response.Body.Close()
		}
	}
	if calls, injected := f.Calls(), f.Injected(); calls != 2 || len(injected) != 1 || injected[0].Call.Name != "a" {
		t.Errorf("%d calls, %v", calls, injected)
	}
}
