// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// fullPod has every field that the guard reads, and much that it does not.
func fullPod() *corev1.Pod {
	deleted := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	ended := metav1.NewTime(deleted.Add(5 * time.Second))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web", UID: "uid", ResourceVersion: "7", CreationTimestamp: deleted,
			DeletionTimestamp: &deleted, DeletionGracePeriodSeconds: new(int64(0)),
			Finalizers:  []string{"example.com/other", v1alpha1.Finalizer},
			Labels:      map[string]string{"app": "web", v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue},
			Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "net", nadv1.NetworkStatusAnnot: "[]", "big": "annotation"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:containers":{},"f:nodeName":{}}}`)},
				{Manager: "kubelet", Subresource: "status", Time: &ended, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{},"f:podIPs":{},"f:conditions":{"k:{\"type\":\"PodReadyToStartContainers\"}":{}}}}`)},
			},
		},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "image"}}},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded, Message: "message", Reason: "reason",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, Message: "no pod sandbox exists"},
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ended}, {Type: v1alpha1.IPsReleasedCondition, Reason: "NodeGone"}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", ImageID: "id",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: ended}}}}},
	}
}

func TestPodTransformKeepsWhatTheGuardReads(t *testing.T) {
	full := fullPod()
	object, err := podTransform(fullPod())
	if err != nil {
		t.Fatal(err)
	}
	got := object.(*corev1.Pod)
	type guardFields struct {
		UID, ResourceVersion, Node, Phase, Message string
		Deleted                                    *metav1.Time
		Grace                                      *int64
		Finalizers                                 []string
		Label, Networks, Status                    string
		Scheduled, TornDown                        time.Time
		Ending                                     release.Ending
	}
	read := func(p *corev1.Pod) guardFields {
		return guardFields{string(p.UID), p.ResourceVersion, p.Spec.NodeName, string(p.Status.Phase), p.Status.Message, p.DeletionTimestamp,
			p.DeletionGracePeriodSeconds, p.Finalizers, p.Labels[v1alpha1.GuardedLabel], p.Annotations[nadv1.NetworkAttachmentAnnot],
			p.Annotations[nadv1.NetworkStatusAnnot], release.Bound(p), release.PodTornDown(p), release.PodEnding(p)}
	}
	if diff := cmp.Diff(read(full), read(got)); diff != "" {
		t.Errorf("the cache loses guard fields (-object +cached):\n%s", diff)
	}
	if release.PodEnding(got) != release.EndingFinished {
		t.Error("the fixture is meant to be kubelet-finished")
	}
	if release.PodTornDown(got).IsZero() {
		t.Error("the fixture is meant to be without a sandbox")
	}
	if len(got.Spec.Containers) != 0 || got.Annotations["big"] != "" || got.Labels["app"] != "" || len(got.Status.Conditions) != 3 {
		t.Errorf("the cache keeps fields that no reader uses: %v", got)
	}
}

// TestPodTransformKeepsWhoseASharedTerminationIs: only where a pod has one does the cache keep more than of other pods.
func TestPodTransformKeepsWhoseASharedTerminationIs(t *testing.T) {
	shared := func() *corev1.Pod {
		pod := fullPod()
		pod.ManagedFields[1].Manager = "k3s"
		pod.ManagedFields[1].FieldsV1 = metav1.NewFieldsV1(`{"f:status":{"f:phase":{},"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{"f:reason":{}}}}}`)
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: "PodCompleted"})
		return pod
	}
	running, collected := shared(), shared()
	running.Status.ContainerStatuses = append(running.Status.ContainerStatuses, corev1.ContainerStatus{Name: "sidecar"})
	collected.Status.Conditions = append(collected.Status.Conditions,
		corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"})
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want release.Ending
	}{
		"the kubelet's":                   {shared(), release.EndingShared},
		"with a container that is not":    {running, release.EndingForeign},
		"PodGC's, of a Node that is gone": {collected, release.EndingForeign},
	} {
		t.Run(name, func(t *testing.T) {
			object, err := podTransform(tc.pod)
			if err != nil {
				t.Fatal(err)
			}
			if got := release.PodEnding(object.(*corev1.Pod)); got != tc.want || release.PodEnding(tc.pod) != tc.want {
				t.Errorf("PodEnding of the cached pod = %d, of the pod %d, want %d", got, release.PodEnding(tc.pod), tc.want)
			}
		})
	}
}

func TestNodeTransformKeepsIdentityReadinessAndTaints(t *testing.T) {
	node := func() *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "uid", ResourceVersion: "7"},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeOutOfService, TimeAdded: &metav1.Time{Time: time.Unix(1, 0)}}}},
			Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: "m", SystemUUID: "s", BootID: "b", KernelVersion: "k"},
				Images: []corev1.ContainerImage{{Names: []string{"image"}}},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue},
					{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}}}
	}
	object, err := nodeTransform(node())
	if err != nil {
		t.Fatal(err)
	}
	got := object.(*corev1.Node)
	if diff := cmp.Diff(facts.Node(node()), facts.Node(got)); diff != "" {
		t.Errorf("the cache loses guard fields (-object +cached):\n%s", diff)
	}
	if len(got.Status.Images) != 0 || !got.Status.Conditions[0].LastHeartbeatTime.IsZero() {
		t.Errorf("the cache keeps fields that no reader uses: %v", got.Status)
	}
}

func TestTransformsLetOtherObjectsPass(t *testing.T) {
	for name, transform := range map[string]func(any) (any, error){"pods": podTransform, "nodes": nodeTransform} {
		secret := &corev1.Secret{}
		if got, err := transform(secret); err != nil || got != any(secret) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}
