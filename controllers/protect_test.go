// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// dated is an entry of managedFields that was dated so many seconds after lateNow.
func dated(manager string, second int) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{}`),
		Time: &metav1.Time{Time: lateNow.Add(time.Duration(second) * time.Second)}}
}

func withoutFinalizer(fields ...metav1.ManagedFieldsEntry) *corev1.Pod {
	pod := namesake("old", "10.0.0.5")
	pod.Finalizers, pod.ManagedFields = nil, fields
	return pod
}

func withFinalizer(fields ...metav1.ManagedFieldsEntry) *corev1.Pod {
	pod := namesake("old", "10.0.0.5")
	pod.ManagedFields = fields
	return pod
}

// TestI10APodThatHoldsAnAddressIsProtectedAgain whatever the cache shows of it.
func TestI10APodThatHoldsAnAddressIsProtectedAgain(t *testing.T) {
	scheduler, kubelet := dated("kube-scheduler", 0), dated("kubelet", 1)
	unlabeled := withoutFinalizer(kubelet)
	unlabeled.Labels = nil
	ended := unlabeled.DeepCopy()
	ended.Status.Phase = corev1.PodFailed
	deleting := withoutFinalizer(kubelet)
	deleting.DeletionTimestamp, deleting.Finalizers = &metav1.Time{Time: lateNow}, []string{"example.com/other"}
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
		"the pod was created or restored with the label alone":                    {nil, withoutFinalizer(kubelet), true, "The pod had only the label"},
		"finalizer and label were removed":                                        {withFinalizer(kubelet), unlabeled, true, ""},
		"the pod has its finalizer":                                               {withFinalizer(scheduler), withFinalizer(kubelet), true, ""},
		"the pod is being deleted, and takes no finalizer":                        {withFinalizer(kubelet), deleting, false, ""},
		"the pod lost both and has ended: any client may have written its report": {withFinalizer(kubelet), ended, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFate(t, tc.now.DeepCopy(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			routes := &router{core: f.r.core, late: queue}
			if tc.now.Labels == nil {
				routes.watchFinalizer(tc.before, nil) // it left the cache
			} else {
				routes.watchFinalizer(tc.before, tc.now)
			}
			late := &LateStampReconciler{core: f.r.core}
			for queue.Len() > 0 {
				request, _ := queue.Get()
				if _, err := late.Reconcile(t.Context(), request); err != nil {
					t.Fatal(err)
				}
				queue.Done(request)
			}
			var pod corev1.Pod
			if err := f.truth.Get(t.Context(), client.ObjectKeyFromObject(tc.now), &pod); err != nil {
				t.Fatal(err)
			}
			if got := controllerutil.ContainsFinalizer(&pod, v1alpha1.Finalizer); got != tc.protected {
				t.Errorf("has the finalizer: %t, expected %t", got, tc.protected)
			}
			checkProtectedEvent(t, f.r.recorder.(*events.FakeRecorder), tc.event)
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

// TestI10APodThatWasMissedUntilItsDeletionGetsARecord: it takes no finalizer any more, and only a record keeps its address from the next pod
// of its name.
func TestI10APodThatWasMissedUntilItsDeletionGetsARecord(t *testing.T) {
	for name, tc := range map[string]struct {
		holds, optedOut, want bool
	}{
		"it holds an address":                    {holds: true, want: true},
		"it holds an address, and has opted out": {holds: true, optedOut: true},
		"it holds none":                          {},
	} {
		t.Run(name, func(t *testing.T) {
			pod := withoutFinalizer(dated("kubelet", 1))
			pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: lateNow}, []string{"example.com/other"}
			if tc.optedOut {
				pod.Annotations[v1alpha1.GuardAnnotation] = v1alpha1.GuardAnnotationOff
			}
			f := newFate(t, pod, nodeObject("node", "node-1", "m1"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
			if !tc.holds {
				f.pool.entries = nil
			}
			if err := f.after(0); err != nil {
				t.Fatal(err)
			}
			err := f.truth.Get(t.Context(), client.ObjectKey{Name: "old"}, &v1alpha1.IPAllocation{})
			if got := err == nil; got != tc.want {
				t.Errorf("has a record: %t (%v), expected %t", got, err, tc.want)
			}
		})
	}
}
