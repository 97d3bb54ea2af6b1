// SPDX-License-Identifier: Apache-2.0

package protect

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// pool holds that many entries of every name.
type pool struct {
	ipam.Backend
	entries int
}

func (p pool) Find(ipam.Query) ipam.Snapshot {
	return ipam.Snapshot{Entries: make([]ipam.Entry, p.entries)}
}

// protecting is a Reconciler in a cluster with that pod.
func protecting(pod *corev1.Pod, o Options) (*Reconciler, client.Client, *events.FakeRecorder) {
	c := fake.NewClientBuilder().WithObjects(pod.DeepCopy(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}).WithReturnManagedFields().Build()
	if o.Backends == nil {
		o.Backends = []ipam.Backend{pool{entries: 1}}
	}
	recorder := events.NewFakeRecorder(100)
	return &Reconciler{client: c, live: c, finalizers: finalizer.Client{Writer: c, Reader: c}, recorder: recorder,
		witness: witness.New(clocktesting.NewFakePassiveClock(now)), options: o}, c, recorder
}

// TestAShadowProtectsNoPodLate but reports that it would.
func TestAShadowProtectsNoPodLate(t *testing.T) {
	pod := withoutFinalizer()
	late, c, _ := protecting(pod, Options{Shadow: shadow.NewReporter()})
	if _, err := late.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); !errors.Is(err, shadow.ErrWithheld) {
		t.Errorf("protected late: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer) {
		t.Errorf("got %v, finalizers %q", err, pod.Finalizers)
	}
}

// A pod that runs when its namespace opts in again is protected without a restart, of itself or of the manager.
func TestI10AnExemptPodWithAnEntryIsLookedAtAgain(t *testing.T) {
	pod := withoutFinalizer()
	pod.Labels = nil
	late, c, _ := protecting(pod, Options{})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	for _, optsOut := range []bool{true, false} {
		if namespace.Labels = nil; optsOut {
			namespace.Labels = map[string]string{v1alpha1.OptOutLabel: v1alpha1.GuardAnnotationOff}
		}
		if err := c.Update(t.Context(), namespace.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		result, err := late.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
		if err != nil || (result.RequeueAfter > 0) != optsOut {
			t.Errorf("opted out %t: %+v, %v", optsOut, result, err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer) == optsOut {
			t.Errorf("opted out %t: finalizers %q, %v", optsOut, pod.Finalizers, err)
		}
	}
}

// dated is an entry of managedFields that was dated so many seconds after now.
func dated(manager string, second int) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{}`),
		Time: &metav1.Time{Time: now.Add(time.Duration(second) * time.Second)}}
}

func withFinalizer(fields ...metav1.ManagedFieldsEntry) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1", UID: "old", Labels: map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue},
		Finalizers: []string{v1alpha1.Finalizer}, ManagedFields: fields}}
}

func withoutFinalizer(fields ...metav1.ManagedFieldsEntry) *corev1.Pod {
	pod := withFinalizer(fields...)
	pod.Finalizers = nil
	return pod
}

// TestI10APodThatHoldsAnAddressIsProtectedAgain checks that for each state of the pod in the cache.
func TestI10APodThatHoldsAnAddressIsProtectedAgain(t *testing.T) {
	scheduler, kubelet := dated("kube-scheduler", 0), dated("kubelet", 1)
	unlabeled := withoutFinalizer(kubelet)
	unlabeled.Labels = nil
	ended := unlabeled.DeepCopy()
	ended.Status.Phase = corev1.PodFailed
	deleting := withoutFinalizer(kubelet)
	deleting.DeletionTimestamp, deleting.Finalizers = &metav1.Time{Time: now}, []string{"example.com/other"}
	for name, tc := range map[string]struct {
		before, now *corev1.Pod
		protected   bool
		event       string
	}{
		"a field manager removed the finalizer and wrote something else": {
			withFinalizer(scheduler, kubelet), withoutFinalizer(scheduler, kubelet, dated("finalizer-remover", 2)), true, `Field manager "finalizer-remover" had removed it`},
		"a field manager did so within the second of another's write": {
			withFinalizer(scheduler, kubelet), withoutFinalizer(scheduler, dated("finalizer-remover", 1), kubelet), true, `Field manager "finalizer-remover" had removed it`},
		"a client only removed the finalizer": {
			withFinalizer(scheduler, kubelet), withoutFinalizer(scheduler, kubelet), true, "left no trace in managedFields"},
		"a client only removed the finalizer, which was all that its last writer owned": {
			withFinalizer(scheduler, kubelet, dated(finalizer.FieldManager, 2)), withoutFinalizer(scheduler, kubelet), true, "left no trace in managedFields"},
		"the pod was created or restored with the label alone":                    {nil, withoutFinalizer(kubelet), true, "The pod had only the label"},
		"finalizer and label were removed":                                        {withFinalizer(kubelet), unlabeled, true, ""},
		"the pod has its finalizer":                                               {withFinalizer(scheduler), withFinalizer(kubelet), true, ""},
		"the pod is being deleted, and takes no finalizer":                        {withFinalizer(kubelet), deleting, false, ""},
		"the pod lost both and has ended: any client may have written its report": {withFinalizer(kubelet), ended, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			late, c, recorder := protecting(tc.now, Options{})
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			if tc.now.Labels == nil {
				late.watch(t.Context(), tc.before, nil, queue) // it left the cache
			} else {
				late.watch(t.Context(), tc.before, tc.now, queue)
			}
			for queue.Len() > 0 {
				request, _ := queue.Get()
				if _, err := late.Reconcile(t.Context(), request); err != nil {
					t.Fatal(err)
				}
				queue.Done(request)
			}
			var pod corev1.Pod
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(tc.now), &pod); err != nil {
				t.Fatal(err)
			}
			if got := controllerutil.ContainsFinalizer(&pod, v1alpha1.Finalizer); got != tc.protected {
				t.Errorf("has the finalizer: %t, expected %t", got, tc.protected)
			}
			checkProtectedEvent(t, recorder, tc.event)
		})
	}
}

// TestI10APodBetweenTwoSandboxesIsProtectedAgain: it holds no address at the moment, and its next sandbox gets one.
func TestI10APodBetweenTwoSandboxesIsProtectedAgain(t *testing.T) {
	ended := withoutFinalizer()
	ended.Status.Phase = corev1.PodSucceeded
	unlabeled := withoutFinalizer()
	unlabeled.Labels = nil
	for name, tc := range map[string]struct {
		pod       *corev1.Pod
		protected bool
	}{
		"it lives":                         {withoutFinalizer(), true},
		"it has ended, and needs none":     {ended, false},
		"no webhook has found it guarded":  {unlabeled, false},
		"it has its finalizer and is left": {withFinalizer(), true},
	} {
		t.Run(name, func(t *testing.T) {
			late, c, _ := protecting(tc.pod, Options{Backends: []ipam.Backend{pool{}}})
			if _, err := late.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(tc.pod)}); err != nil {
				t.Fatal(err)
			}
			var pod corev1.Pod
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(tc.pod), &pod); err != nil {
				t.Fatal(err)
			}
			if got := controllerutil.ContainsFinalizer(&pod, v1alpha1.Finalizer); got != tc.protected {
				t.Errorf("has the finalizer: %t, expected %t", got, tc.protected)
			}
		})
	}
}

func checkProtectedEvent(t *testing.T, recorder *events.FakeRecorder, want string) {
	t.Helper()
	close(recorder.Events)
	var got []string
	for event := range recorder.Events {
		got = append(got, event)
	}
	if (want == "") != (len(got) == 0) || (want != "" && !strings.Contains(got[0], want)) {
		t.Errorf("events %q, expected one with %q", got, want)
	}
}
