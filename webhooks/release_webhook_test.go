// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
)

const (
	managerUser = "system:serviceaccount:holdfast-system:holdfast-manager"
	poolRange   = "10.10.0.0/24"
)

// cluster is what a release guard can read, and how the reads fail.
type cluster struct {
	objects []client.Object
	// fail gives the error of reading a type.
	fail map[reflect.Type]error
	// hang makes every read wait for the end of its context.
	hang bool
	// holders and holdersErr are the backend's result for reservations.
	holders    []ipam.Key
	holdersErr error
	// podEnds is what the backend was told last.
	podEnds bool
	// seen is what the replica's cache shows of the pools.
	seen  []ipam.Entry
	reads atomic.Int32
}

// reviewed is the backend over the cluster: only what it reads live is made up.
type reviewed struct {
	*whereabouts.Backend
	cluster *cluster
}

func (r reviewed) ReservationHolders(_ context.Context, _ ipam.Reservation, podEnds bool) ([]ipam.Key, error) {
	r.cluster.podEnds = podEnds
	return r.cluster.holders, r.cluster.holdersErr
}

func (reviewed) Guards(namespace string) bool { return namespace != "elsewhere" }

func (r reviewed) Find(ipam.Query) ipam.Snapshot { return ipam.Snapshot{Entries: r.cluster.seen} }

func (c *cluster) read(ctx context.Context, object any) error {
	c.reads.Add(1)
	if c.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.fail[reflect.TypeOf(object)]
}

func (c *cluster) client(t testing.TB) client.Reader {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	index := func(get func(*v1alpha1.IPAllocation) string) client.IndexerFunc {
		return func(o client.Object) []string { return []string{get(o.(*v1alpha1.IPAllocation))} }
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.objects...).WithReturnManagedFields().
		WithIndex(&v1alpha1.IPAllocation{}, "spec.podNamespace", index(func(r *v1alpha1.IPAllocation) string { return r.Spec.PodNamespace })).
		WithIndex(&v1alpha1.IPAllocation{}, "spec.podName", index(func(r *v1alpha1.IPAllocation) string { return r.Spec.PodName })).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, next client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if err := c.read(ctx, o); err != nil {
					return err
				}
				return next.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, next client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
				if err := c.read(ctx, o); err != nil {
					return err
				}
				return next.List(ctx, o, opts...)
			},
		}).Build()
}

// guard is a guard over the cluster; its events go to the channel.
func (c *cluster) guard(t testing.TB, mode configv1alpha1.ReleaseMode) (*releaseGuard, <-chan string) {
	t.Helper()
	o, err := ReleaseOptions{
		Mode: mode, ManagerUser: managerUser, Backend: reviewed{whereabouts.New(whereabouts.Options{}), c}, CNIUsers: []string{"cni"},
		DaemonSets: []types.NamespacedName{{Namespace: "kube-system", Name: "whereabouts"}},
		Timeout:    50 * time.Millisecond, Clock: testingclock.NewFakePassiveClock(time.Now()),
	}.complete()
	if err != nil {
		t.Fatal(err)
	}
	recorder := events.NewFakeRecorder(100)
	return newReleaseGuard(c.client(t), recorder, o), recorder.Events
}

// onNodeA has a running pod web-0 on a Ready node-a, and whereabouts' DaemonSet pod there.
func onNodeA() *cluster {
	return &cluster{objects: []client.Object{
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "uid-0"}, Spec: corev1.PodSpec{NodeName: "node-a"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "node-a-uid"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "whereabouts", UID: "ds-uid"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "whereabouts-x", UID: "cni-uid", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "whereabouts", UID: "ds-uid", Controller: new(true)}}},
			Spec: corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Image: "ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.4"}}}},
	}}
}

// cniToken is the identity of whereabouts-x; change makes another one of it.
func cniToken(change ...func(*authenticationv1.UserInfo)) authenticationv1.UserInfo {
	user := authenticationv1.UserInfo{
		Username: "system:serviceaccount:kube-system:whereabouts",
		Extra: map[string]authenticationv1.ExtraValue{
			serviceaccount.PodNameKey: {"whereabouts-x"}, serviceaccount.PodUIDKey: {"cni-uid"}, serviceaccount.NodeNameKey: {"node-a"}},
	}
	for _, c := range change {
		c(&user)
	}
	return user
}

func withExtra(key string, values ...string) func(*authenticationv1.UserInfo) {
	return func(u *authenticationv1.UserInfo) { u.Extra[key] = values }
}

// poolJSON is an IPPool with entries by offset: sandbox ID and podref.
func poolJSON(t testing.TB, network string, entries map[string][2]string) runtime.RawExtension {
	t.Helper()
	allocations := map[string]any{}
	for offset, e := range entries {
		allocations[offset] = map[string]string{"id": e[0], "podref": e[1], "ifname": "net1"}
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
		"metadata": map[string]string{"namespace": "kube-system", "name": "10.10.0.0-24"},
		"spec":     map[string]any{"range": network, "allocations": allocations},
	})
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: raw}
}

// removal is a request after which the pool is empty.
func removal(t *testing.T, user authenticationv1.UserInfo, network string, entries map[string][2]string) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, UserInfo: user, Namespace: "kube-system", Name: "10.10.0.0-24",
		Resource:  metav1.GroupVersionResource{Resource: "ippools"},
		OldObject: poolJSON(t, network, entries), Object: poolJSON(t, network, nil),
	}}
}

const (
	// sandbox0 is an ID as container runtimes make them, claim0 the UID of a ResourceClaim.
	sandbox0 = "5a00000000000000000000000000000000000000000000000000000000000000"
	claim0   = "8b0d7b4e-3f0a-4c53-9d1e-1f2a3b4c5d6e"
)

var web0 = map[string][2]string{"1": {sandbox0, "default/web-0"}}

// checkRefused expects 403: a 422 would make whereabouts try again a hundred times, a 5xx would let the write pass.
func checkRefused(t *testing.T, response admission.Response) {
	t.Helper()
	if response.Allowed || response.Result.Code != http.StatusForbidden || !strings.Contains(response.Result.Message, "UnsafeReleaseRefused") {
		t.Errorf("got %+v, want a refusal with 403", response)
	}
}

func checkAllowed(t *testing.T, response admission.Response) {
	t.Helper()
	if !response.Allowed || len(response.Warnings) > 0 {
		t.Errorf("got %+v, want no objection", response)
	}
}

func TestAReadThatFailsIsNeverAnAbsence(t *testing.T) {
	gone := map[string][2]string{"1": {sandbox0, "default/gone"}}
	for name, tc := range map[string]struct {
		user    authenticationv1.UserInfo
		entries map[string][2]string
		breaks  any
	}{
		"the pod, where it is gone":           {authenticationv1.UserInfo{Username: "reconciler"}, gone, &corev1.Pod{}},
		"the records, where there are none":   {authenticationv1.UserInfo{Username: "reconciler"}, gone, &v1alpha1.IPAllocationList{}},
		"the Node, in CNI DEL":                {cniToken(), web0, &corev1.Node{}},
		"the DaemonSet, in CNI DEL":           {cniToken(), web0, &appsv1.DaemonSet{}},
		"the pods, in CNI DEL":                {cniToken(), web0, &corev1.Pod{}},
		"the records, in CNI DEL":             {cniToken(), web0, &v1alpha1.IPAllocationList{}},
		"the record of a tombstone":           {authenticationv1.UserInfo{}, map[string][2]string{"1": {sandbox0, "holdfast-releasing/gone"}}, &v1alpha1.IPAllocation{}},
		"the Node, for a trusted certificate": {authenticationv1.UserInfo{Username: "cni"}, web0, &corev1.Node{}},
	} {
		t.Run(name, func(t *testing.T) {
			c := onNodeA()
			guard, _ := c.guard(t, configv1alpha1.ReleaseModeDeny)
			validator := &IPPoolReleaseValidator{guard}
			checkAllowed(t, validator.Handle(t.Context(), removal(t, tc.user, poolRange, tc.entries)))
			guard.proven = lru.New(maxProvenPods) // as after a restart
			c.fail = map[reflect.Type]error{reflect.TypeOf(tc.breaks): errors.New("the API server does not respond")}
			response := validator.Handle(t.Context(), removal(t, tc.user, poolRange, tc.entries))
			checkRefused(t, response)
		})
	}
}

// TestAnUpdateThatDeletesThePoolIsItsDeletion: every entry stays in the object, and is gone with it.
func TestAnUpdateThatDeletesThePoolIsItsDeletion(t *testing.T) {
	beingDeleted := func(finalizers string) runtime.RawExtension {
		return runtime.RawExtension{Raw: bytes.Replace(poolJSON(t, poolRange, web0).Raw, []byte(`"metadata":{`), []byte(`"metadata":{"deletionTimestamp":"2026-11-29T12:00:00Z",`+finalizers), 1)}
	}
	for finalizers, allowed := range map[string]bool{``: false, `"finalizers":[],`: false, `"finalizers":["example.com/b",7],`: false, `"finalizers":["example.com/b"],`: true} {
		guard, _ := onNodeA().guard(t, configv1alpha1.ReleaseModeDeny)
		request := removal(t, authenticationv1.UserInfo{Username: "reconciler"}, poolRange, web0)
		request.OldObject, request.Object = beingDeleted(`"finalizers":["example.com/a","example.com/b"],`), beingDeleted(finalizers)
		response := (&IPPoolReleaseValidator{guard}).Handle(t.Context(), request)
		if allowed {
			checkAllowed(t, response)
		} else {
			checkRefused(t, response)
		}
	}
}

func TestReadsThatHangEndInARefusal(t *testing.T) {
	c := onNodeA()
	c.hang = true
	guard, _ := c.guard(t, configv1alpha1.ReleaseModeDeny)
	checkRefused(t, (&IPPoolReleaseValidator{guard}).Handle(t.Context(), removal(t, cniToken(), poolRange, web0)))
}

func TestTheTokenOfTheNodesDaemonSetPodIsTrusted(t *testing.T) {
	for name, tc := range map[string]struct {
		user    authenticationv1.UserInfo
		objects func(*cluster)
		allowed bool
	}{
		"the pod's own token":                        {user: cniToken(), allowed: true},
		"a token that names no pod":                  {user: cniToken(withExtra(serviceaccount.PodNameKey))},
		"a token that names no pod UID":              {user: cniToken(withExtra(serviceaccount.PodUIDKey))},
		"a token that names no node":                 {user: cniToken(withExtra(serviceaccount.NodeNameKey))},
		"a token with two names":                     {user: cniToken(withExtra(serviceaccount.PodNameKey, "whereabouts-x", "other"))},
		"a token of an earlier pod of the name":      {user: cniToken(withExtra(serviceaccount.PodUIDKey, "earlier"))},
		"a token of another node than the pod's":     {user: cniToken(withExtra(serviceaccount.NodeNameKey, "node-b"))},
		"a pod that is gone":                         {user: cniToken(withExtra(serviceaccount.PodNameKey, "gone"))},
		"a ServiceAccount of another namespace":      {user: cniToken(func(u *authenticationv1.UserInfo) { u.Username = "system:serviceaccount:default:whereabouts" })},
		"a user with the extra of a token":           {user: cniToken(func(u *authenticationv1.UserInfo) { u.Username = "another" })},
		"a pod that no DaemonSet controls":           {user: cniToken(), objects: func(c *cluster) { c.objects[3].SetOwnerReferences(nil) }},
		"a pod of a DaemonSet of the same name only": {user: cniToken(), objects: func(c *cluster) { c.objects[2].SetUID("another") }},
		"a pod of another DaemonSet": {user: cniToken(), objects: func(c *cluster) {
			c.objects[2].SetName("other")
			c.objects[3].GetOwnerReferences()[0].Name = "other"
		}},
		"a pod of a ReplicaSet of that name": {user: cniToken(), objects: func(c *cluster) {
			c.objects[3].GetOwnerReferences()[0].Kind = "ReplicaSet"
		}},
		"a pod of a foreign kind of DaemonSet": {user: cniToken(), objects: func(c *cluster) {
			c.objects[3].GetOwnerReferences()[0].APIVersion = "example.com/v1"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := onNodeA()
			if tc.objects != nil {
				tc.objects(c)
			}
			guard, _ := c.guard(t, configv1alpha1.ReleaseModeDeny)
			response := (&IPPoolReleaseValidator{guard}).Handle(t.Context(), removal(t, tc.user, poolRange, web0))
			if tc.allowed {
				checkAllowed(t, response)
				return
			}
			checkRefused(t, response)
		})
	}
}

// The pod's node and controller do not change, so that they are read once. Everything else is read each time.
func TestADaemonSetPodIsProvenOnce(t *testing.T) {
	c := onNodeA()
	c.objects = append(c.objects,
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1", UID: "uid-1"}, Spec: corev1.PodSpec{NodeName: "node-b"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-b", UID: "node-b-uid"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
	guard, _ := c.guard(t, configv1alpha1.ReleaseModeDeny)
	validator := &IPPoolReleaseValidator{guard}
	checkAllowed(t, validator.Handle(t.Context(), removal(t, cniToken(), poolRange, web0)))
	first := c.reads.Swap(0)
	c.fail = map[reflect.Type]error{reflect.TypeFor[*appsv1.DaemonSet](): errors.New("the API server does not respond")}
	checkAllowed(t, validator.Handle(t.Context(), removal(t, cniToken(), poolRange, web0)))
	if again := c.reads.Load(); again != first-2 {
		t.Errorf("%d reads at first and %d then, expected those of the pod and of its DaemonSet to be left out", first, again)
	}
	for name, user := range map[string]authenticationv1.UserInfo{
		"another pod UID": cniToken(withExtra(serviceaccount.PodUIDKey, "another")),
		"another node":    cniToken(withExtra(serviceaccount.NodeNameKey, "node-b")),
		"another account": cniToken(func(u *authenticationv1.UserInfo) { u.Username = "system:serviceaccount:default:whereabouts" }),
	} {
		t.Run(name, func(t *testing.T) {
			checkRefused(t, validator.Handle(t.Context(), removal(t, user, poolRange, web0)))
			checkRefused(t, validator.Handle(t.Context(), removal(t, user, poolRange, map[string][2]string{"1": {"sandbox-1", "default/web-1"}})))
		})
	}
}

func TestBadPoolsNeitherCrashNorRelease(t *testing.T) {
	garbage := runtime.RawExtension{Raw: []byte(`{"spec":{"allocations":{"1":[]}}}`)}
	someone := authenticationv1.UserInfo{Username: "someone"}
	for name, tc := range map[string]struct {
		request func(t *testing.T) admission.Request
		allowed bool
	}{
		"no old object": {request: func(t *testing.T) admission.Request {
			r := removal(t, someone, poolRange, web0)
			r.OldObject = runtime.RawExtension{}
			return r
		}},
		"an old object of another shape": {request: func(t *testing.T) admission.Request {
			r := removal(t, someone, poolRange, web0)
			r.OldObject = garbage
			return r
		}},
		"a new object of another shape": {request: func(t *testing.T) admission.Request {
			r := removal(t, someone, poolRange, web0)
			r.Object = garbage
			return r
		}},
		"a broken range and a running pod": {request: func(t *testing.T) admission.Request { return removal(t, someone, "10.10.0.0", web0) }},
		"a broken range and a pod that is gone": {allowed: true, request: func(t *testing.T) admission.Request {
			return removal(t, someone, "10.10.0.0", map[string][2]string{"1": {sandbox0, "default/gone"}})
		}},
		"an offset out of range and a running pod": {request: func(t *testing.T) admission.Request {
			return removal(t, someone, poolRange, map[string][2]string{"300": web0["1"]})
		}},
		"an offset of 2^63 and a running pod": {request: func(t *testing.T) admission.Request {
			return removal(t, someone, "fd00::/32", map[string][2]string{"9223372036854775808": web0["1"]})
		}},
		"an offset that is no number and a running pod": {request: func(t *testing.T) admission.Request {
			return removal(t, someone, poolRange, map[string][2]string{"x": web0["1"]})
		}},
		"an empty podref": {request: func(t *testing.T) admission.Request {
			return removal(t, someone, poolRange, map[string][2]string{"1": {"s", ""}})
		}},
		"a podref without a name": {request: func(t *testing.T) admission.Request {
			return removal(t, someone, poolRange, map[string][2]string{"1": {"s", "default/"}})
		}},
		"an empty sandbox ID under an empty podref": {request: func(t *testing.T) admission.Request {
			return removal(t, someone, poolRange, map[string][2]string{"1": {"", ""}})
		}},
		"nothing is taken away": {allowed: true, request: func(t *testing.T) admission.Request {
			r := removal(t, someone, poolRange, web0)
			r.Object = r.OldObject
			return r
		}},
		"the range becomes unreadable": {request: func(t *testing.T) admission.Request {
			r := removal(t, someone, poolRange, web0)
			r.Object = poolJSON(t, "", web0)
			return r
		}},
		"an unreadable range is repaired": {allowed: true, request: func(t *testing.T) admission.Request {
			r := removal(t, someone, "", web0)
			r.Object = poolJSON(t, poolRange, web0)
			return r
		}},
	} {
		t.Run(name, func(t *testing.T) {
			guard, _ := onNodeA().guard(t, configv1alpha1.ReleaseModeDeny)
			response := (&IPPoolReleaseValidator{guard}).Handle(t.Context(), tc.request(t))
			if tc.allowed {
				checkAllowed(t, response)
				return
			}
			checkRefused(t, response)
		})
	}
}

func TestModes(t *testing.T) {
	for name, tc := range map[string]struct {
		mode                          configv1alpha1.ReleaseMode
		allowed, warns, reads, dryRun bool
		event                         string
	}{
		"Off reads nothing":              {mode: configv1alpha1.ReleaseModeOff, allowed: true},
		"Warn lets it through and warns": {mode: configv1alpha1.ReleaseModeWarn, allowed: true, warns: true, reads: true, event: "Warning UnsafeReleaseWarned Allowed, because the mode is Warn"},
		"Deny refuses":                   {mode: configv1alpha1.ReleaseModeDeny, reads: true, event: "Warning UnsafeReleaseRefused UnsafeReleaseRefused: 10.10.0.1"},
		"a dry run leaves no event":      {mode: configv1alpha1.ReleaseModeDeny, reads: true, dryRun: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := onNodeA()
			guard, recorded := c.guard(t, tc.mode)
			request := removal(t, authenticationv1.UserInfo{Username: "reconciler"}, poolRange, web0)
			request.DryRun = &tc.dryRun
			response := (&IPPoolReleaseValidator{guard}).Handle(t.Context(), request)
			if response.Allowed != tc.allowed || (len(response.Warnings) > 0) != tc.warns {
				t.Errorf("got %+v", response)
			}
			if (c.reads.Load() > 0) != tc.reads {
				t.Errorf("%d reads", c.reads.Load())
			}
			for _, warning := range response.Warnings {
				if !strings.HasPrefix(warning, allowedByWarn) {
					t.Errorf("the warning %q does not say that the removal was allowed", warning)
				}
			}
			if (len(recorded) > 0) != (tc.event != "") {
				t.Fatalf("%d events", len(recorded))
			}
			if tc.event == "" {
				return
			}
			if got := <-recorded; !strings.HasPrefix(got, tc.event) {
				t.Errorf("event %q, want %q", got, tc.event)
			}
		})
	}
}

func TestTheFirstRefusalsDecideAboutALargePool(t *testing.T) {
	entries := map[string][2]string{"0": web0["1"]}
	for offset := 1; offset < 250; offset++ {
		entries[fmt.Sprint(offset)] = [2]string{fmt.Sprint("s", offset), fmt.Sprintf("default/gone-%d", offset)}
	}
	c := onNodeA()
	guard, _ := c.guard(t, configv1alpha1.ReleaseModeDeny)
	checkRefused(t, (&IPPoolReleaseValidator{guard}).Handle(t.Context(), removal(t, authenticationv1.UserInfo{}, poolRange, entries)))
	if got, limit := int(c.reads.Load()), 3*casesAtOnce; got > limit {
		t.Errorf("%d reads, want %d at most: the rest of the pool need not be read", got, limit)
	}
}

// Refused, whereabouts would complete the ADD with an address that no pool has recorded.
func TestAnAddThatLosesAnUnreadableOffsetPassesAndIsReported(t *testing.T) {
	guard, recorded := onNodeA().guard(t, configv1alpha1.ReleaseModeDeny)
	request := removal(t, authenticationv1.UserInfo{Username: "someone"}, poolRange, map[string][2]string{"300": web0["1"]})
	request.Object = poolJSON(t, poolRange, map[string][2]string{"2": {"sandbox-2", "default/new"}})
	response := (&IPPoolReleaseValidator{guard}).Handle(t.Context(), request)
	if !response.Allowed || len(response.Warnings) != 1 || !strings.Contains(response.Warnings[0], "MalformedPool") {
		t.Errorf("got %+v, want a permit with a warning", response)
	}
	if len(recorded) != 1 {
		t.Errorf("%d events, want one on the pod", len(recorded))
	}
}

func TestWrongReleaseOptionsAreAllNamed(t *testing.T) {
	_, err := ReleaseOptions{Mode: "deny"}.complete()
	for _, part := range []string{`mode is "deny"`, "user name is empty", "no backend"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}
