// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

// What real clients rely on is in test/integration/conformance; here is what only a simulation has.

func clientset(t *testing.T, c *apiserver.Client) kubernetes.Interface {
	t.Helper()
	set, err := kubernetes.NewForConfig(&rest.Config{Host: "http://memory", Transport: c, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func settings(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// start serves a namespace default to a client.
func start(t *testing.T, o apiserver.Options) (*apiserver.Server, *apiserver.Client, kubernetes.Interface) {
	t.Helper()
	s := apiserver.New(o, apiserver.Natives()...)
	client := s.Client(apiserver.Identity{Client: "test"})
	set := clientset(t, client)
	if _, err := set.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return s, client, set
}

// gate gives each call to a resource an outcome.
type gate map[string]apiserver.Outcome

func (g gate) Pass(_ context.Context, c apiserver.Call) apiserver.Outcome {
	return g[c.Resource+" "+c.Name]
}

func TestGate(t *testing.T) {
	broken := errors.New("connection refused")
	outcomes := gate{}
	_, client, set := start(t, apiserver.Options{Gate: outcomes})
	maps := set.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), settings("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	outcomes["configmaps a"] = apiserver.Outcome{Err: broken}
	if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{}); !errors.Is(err, broken) {
		t.Errorf("a call that is not served: %v", err)
	}
	outcomes["configmaps a"] = apiserver.Outcome{Err: apierrors.NewTooManyRequests("later", 0)}
	if _, err := maps.Update(t.Context(), settings("a"), metav1.UpdateOptions{}); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a call that gets a status: %v", err)
	}
	outcomes["configmaps a"] = apiserver.Outcome{}
	if _, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("an object whose calls failed: %v", err)
	}
	outcomes["configmaps a"] = apiserver.Outcome{Lost: true}
	if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{}); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("a call whose response is lost: %v", err)
	}
	delete(outcomes, "configmaps a")
	if _, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a call whose response was lost was not served: %v", err)
	}
	client.Kill()
	if _, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("a call of a dead process: %v", err)
	}
}

func TestHeldEventsAreDeliveredOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, set := start(t, apiserver.Options{HoldEvents: true})
		w, err := set.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{AllowWatchBookmarks: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			if _, err := set.CoreV1().ConfigMaps("default").Create(t.Context(), settings(name), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		stream := s.Streams()[0]
		if stream.Name() != "test watch configmaps" || stream.Pending() != 2 {
			t.Errorf("%d events of %q are held", stream.Pending(), stream.Name())
		}
		for _, step := range []struct {
			does func()
			want string
		}{
			{stream.Deliver, "ADDED a"},
			{func() { stream.Bookmark(); stream.Deliver() }, "ADDED b"}, // a bookmark says nothing while an event is held
			{stream.Bookmark, "BOOKMARK"},
			{stream.Expire, "ERROR Expired"},
			{stream.Cut, "closed"},
		} {
			step.does()
			if got := next(w); got != step.want {
				t.Errorf("delivered %q, expected %q", got, step.want)
			}
		}
	})
}

// next is the next event of a watch, as text.
func next(w watch.Interface) string {
	e, open := <-w.ResultChan()
	switch o := e.Object.(type) {
	case *corev1.ConfigMap:
		return strings.TrimSpace(string(e.Type) + " " + o.Name)
	case *metav1.Status:
		return string(e.Type) + " " + string(o.Reason)
	}
	if !open {
		return "closed"
	}
	return string(e.Type)
}

func TestCompactionExpiresVersionsAndPages(t *testing.T) {
	s, _, set := start(t, apiserver.Options{})
	maps := set.CoreV1().ConfigMaps("default")
	for _, name := range []string{"a", "b", "c"} {
		if _, err := maps.Create(t.Context(), settings(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := maps.List(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Compact()
	if _, err := maps.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: page.Continue}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a page of a version that was compacted: %v", err)
	}
	w, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: page.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("a watch from a version that was compacted: %v", e)
	}
}

// An informer is what the product has; in a bubble everything settles, or Wait hangs.
func TestInformersRunInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, set := start(t, apiserver.Options{})
		informer := toolscache.NewSharedInformer(toolscache.NewListWatchFromClient(set.CoreV1().RESTClient(), "configmaps", "default", fields.Everything()), &corev1.ConfigMap{}, 0)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); informer.RunWithContext(ctx) }()
		synctest.Wait()
		if _, err := set.CoreV1().ConfigMaps("default").Create(t.Context(), settings("a"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]string{"default/a"}, informer.GetStore().ListKeys()); diff != "" {
			t.Error(diff)
		}
		cancel()
		<-ended
	})
}

func TestAWebhookThatNeverRespondsTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		_, _, set := start(t, apiserver.Options{Webhook: func(admissionregistrationv1.WebhookClientConfig) http.Handler { return hangs }})
		all := admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}
		hook := admissionregistrationv1.ValidatingWebhook{Name: "a.b.c", FailurePolicy: new(admissionregistrationv1.Ignore), TimeoutSeconds: new(int32(3)),
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "a", Name: "b"}},
			Rules:        []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"CREATE"}, Rule: all}}}
		if _, err := set.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "hangs"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{hook}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := set.CoreV1().ConfigMaps("default").Create(t.Context(), settings("a"), metav1.CreateOptions{}); err != nil {
			t.Errorf("a failed call with failurePolicy Ignore: %v", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the creation took %v", took)
		}
	})
}

func TestTheProductsCustomResourcesAreServed(t *testing.T) {
	files, err := filepath.Glob("../../../config/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v: %v", files, err)
	}
	for _, file := range files {
		if _, err := apiserver.CustomFromFile(file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// readingProtobuf is a client that accepts protobuf.
func readingProtobuf(t *testing.T, c *apiserver.Client) kubernetes.Interface {
	t.Helper()
	set, err := kubernetes.NewForConfig(&rest.Config{Host: "http://memory", Transport: c, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// readPods gets, lists and watches the pod a.
func readPods(t *testing.T, set kubernetes.Interface) []*corev1.Pod {
	t.Helper()
	pods := set.CoreV1().Pods("default")
	one, err := pods.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil || list.ResourceVersion == "" || len(list.Items) != 1 {
		t.Fatalf("the list %v: %v", list, err)
	}
	list.Items[0].TypeMeta = metav1.TypeMeta{} // which in a list only JSON has
	events, err := pods.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	watched, _ := (<-events.ResultChan()).Object.(*corev1.Pod)
	return []*corev1.Pod{one, &list.Items[0], watched}
}

// TestNativeKindsAreServedInProtobuf: what a client reads in protobuf is what it reads in JSON.
func TestNativeKindsAreServedInProtobuf(t *testing.T) {
	_, client, inJSON := start(t, apiserver.Options{})
	inProtobuf := readingProtobuf(t, client)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Labels: map[string]string{"a": "b"}, Finalizers: []string{"example.com/a"}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := inProtobuf.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(readPods(t, inJSON), readPods(t, inProtobuf)); diff != "" {
		t.Errorf("JSON (-) and protobuf (+):\n%s", diff)
	}
}

func TestAStatusIsReadByAClientOfProtobuf(t *testing.T) {
	_, client, _ := start(t, apiserver.Options{})
	set := readingProtobuf(t, client)
	maps := set.CoreV1().ConfigMaps("default")
	if _, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an object that does not exist: %v", err)
	}
	if _, err := maps.Create(t.Context(), settings("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Errorf("a deletion: %v", err)
	}
	old, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if event := <-old.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
		t.Errorf("a watch from a version that is too old begins with %v", event)
	}
}
