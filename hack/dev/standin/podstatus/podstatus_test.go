// SPDX-License-Identifier: Apache-2.0

package podstatus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/podstatus"
)

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now   = start.Add(time.Minute)

	neverRan = map[string]podstatus.Container{}
	running  = map[string]podstatus.Container{"main": {ID: "c1", StartedAt: start}}
	ended    = endedWith(0)
	failed   = endedWith(1)
)

func endedWith(code int32) map[string]podstatus.Container {
	return map[string]podstatus.Container{"main": {ID: "c1", StartedAt: start, FinishedAt: now, ExitCode: code}}
}

// pod has been accepted by the API server and is bound to a node.
func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-0", UID: "uid-1", Generation: 3},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort},
	}
	if change != nil {
		change(p)
	}
	return p
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

// reported is what a reader of the status looks at.
type reported struct {
	Phase                         corev1.PodPhase
	Sandbox, Ready, Initialized   corev1.ConditionStatus
	ReadyReason, State, LastState string
	Restarts                      int32
}

func read(status corev1.PodStatus) reported {
	r := reported{Phase: status.Phase}
	for _, c := range status.Conditions {
		switch c.Type {
		case corev1.PodReadyToStartContainers:
			r.Sandbox = c.Status
		case corev1.PodInitialized:
			r.Initialized = c.Status
		case corev1.PodReady:
			r.Ready, r.ReadyReason = c.Status, c.Reason
		default:
		}
	}
	if len(status.ContainerStatuses) > 0 {
		c := status.ContainerStatuses[0]
		r.State, r.LastState, r.Restarts = stateOf(c.State), stateOf(c.LastTerminationState), c.RestartCount
	}
	return r
}

func stateOf(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Waiting != nil:
		return "waiting " + s.Waiting.Reason
	case s.Terminated != nil:
		return "terminated " + s.Terminated.Reason
	}
	return ""
}

const (
	yes = corev1.ConditionTrue
	no  = corev1.ConditionFalse
)

func TestBuild(t *testing.T) {
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		observed podstatus.Observed
		want     reported
	}{
		"a pod without a sandbox is Pending": {
			pod(nil), podstatus.Observed{Stage: podstatus.Syncing, Containers: neverRan},
			reported{Phase: corev1.PodPending, Sandbox: no, Ready: no, Initialized: yes, ReadyReason: "ContainersNotReady", State: "waiting ContainerCreating"},
		},
		"a pod whose containers run is Running and Ready": {
			pod(nil), podstatus.Observed{Stage: podstatus.Syncing, SandboxReady: true, Containers: running},
			reported{Phase: corev1.PodRunning, Sandbox: yes, Ready: yes, Initialized: yes, State: "running"},
		},
		"a pod whose containers ended keeps its phase until it is torn down": {
			pod(inPhase(corev1.PodRunning)), podstatus.Observed{Stage: podstatus.Syncing, SandboxReady: true, Containers: ended},
			reported{Phase: corev1.PodRunning, Sandbox: yes, Ready: no, Initialized: yes, ReadyReason: "ContainersNotReady", State: "terminated Completed"},
		},
		"a pod whose sandbox is stopped keeps its phase in the report of that": {
			pod(inPhase(corev1.PodRunning)), podstatus.Observed{Stage: podstatus.Terminating, Containers: ended},
			reported{Phase: corev1.PodRunning, Sandbox: no, Ready: no, Initialized: yes, ReadyReason: "ContainersNotReady", State: "terminated Completed"},
		},
		"a terminated pod whose containers succeeded is Succeeded": {
			pod(inPhase(corev1.PodRunning)), podstatus.Observed{Stage: podstatus.Terminated, Containers: ended},
			reported{Phase: corev1.PodSucceeded, Sandbox: no, Ready: no, Initialized: yes, ReadyReason: "PodCompleted", State: "terminated Completed"},
		},
		"a terminated pod with a container that failed is Failed": {
			pod(inPhase(corev1.PodRunning)), podstatus.Observed{Stage: podstatus.Terminated, Containers: failed},
			reported{Phase: corev1.PodFailed, Sandbox: no, Ready: no, Initialized: yes, ReadyReason: "PodFailed", State: "terminated Error"},
		},
		"a terminated pod that never ran is Failed, its container still waiting": {
			pod(nil), podstatus.Observed{Stage: podstatus.Terminated, Containers: neverRan},
			reported{Phase: corev1.PodFailed, Sandbox: no, Ready: no, Initialized: yes, ReadyReason: "PodFailed", State: "waiting ContainerCreating"},
		},
		"a terminated pod that ran on this node before the machine's reboot is Failed": {
			pod(func(p *corev1.Pod) {
				p.Status = podstatus.Build(pod(nil), podstatus.Observed{Stage: podstatus.Syncing, SandboxReady: true, Containers: running}, start)
			}),
			podstatus.Observed{Stage: podstatus.Terminated, Containers: neverRan},
			reported{Phase: corev1.PodFailed, Sandbox: no, Ready: no, Initialized: yes, ReadyReason: "PodFailed", State: "terminated ContainerStatusUnknown"},
		},
		"a phase that PodGC made terminal stays": {
			pod(inPhase(corev1.PodFailed)), podstatus.Observed{Stage: podstatus.Terminated, Containers: ended},
			reported{Phase: corev1.PodFailed, Sandbox: no, Ready: no, Initialized: yes, ReadyReason: "PodFailed", State: "terminated Completed"},
		},
		"a pod whose sandbox died is Running while its containers are started anew": {
			pod(inPhase(corev1.PodRunning)),
			podstatus.Observed{Stage: podstatus.Syncing, SandboxReady: true, Containers: map[string]podstatus.Container{"main": {
				ID: "c2", StartedAt: now, Restarts: 1, Last: &podstatus.Container{ID: "c1", StartedAt: start, FinishedAt: now, ExitCode: podstatus.ExitKilled},
			}}},
			reported{Phase: corev1.PodRunning, Sandbox: yes, Ready: yes, Initialized: yes, State: "running", LastState: "terminated Error", Restarts: 1},
		},
		"a pod whose init container has not ended is not initialized": {
			pod(func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "init"}} }),
			podstatus.Observed{Stage: podstatus.Syncing, Containers: neverRan},
			reported{Phase: corev1.PodPending, Sandbox: no, Ready: no, Initialized: no, ReadyReason: "ContainersNotReady", State: "waiting ContainerCreating"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := podstatus.Build(tc.pod, tc.observed, now)
			if diff := cmp.Diff(tc.want, read(got)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBuildKeepsWhatOthersWrote(t *testing.T) {
	foreign := corev1.PodCondition{Type: "holdfast.dev/IPsReleased", Status: no, Reason: "SandboxRunning"}
	p := pod(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{foreign, {Type: corev1.PodReady, Status: no, LastTransitionTime: metav1.NewTime(start)}}
		p.Status.PodIP = "10.244.0.2"
	})
	got := podstatus.Build(p, podstatus.Observed{Stage: podstatus.Terminated, HostIP: "203.0.113.10", Containers: ended}, now)
	if diff := cmp.Diff(foreign, got.Conditions[0]); diff != "" {
		t.Errorf("the condition of another owner (-want +got):\n%s", diff)
	}
	for _, c := range got.Conditions {
		if c.Type == corev1.PodReady && !c.LastTransitionTime.Time.Equal(start) {
			t.Errorf("Ready did not change, its transition is said to be at %s", c.LastTransitionTime)
		}
	}
	if got.PodIP != "10.244.0.2" || got.QOSClass != corev1.PodQOSBestEffort || got.ObservedGeneration != 3 {
		t.Errorf("pod IP %q, QoS %q, observed generation %d", got.PodIP, got.QOSClass, got.ObservedGeneration)
	}
}

func TestPatch(t *testing.T) {
	p := pod(inPhase(corev1.PodRunning))
	p.Status = podstatus.Build(p, podstatus.Observed{Stage: podstatus.Terminating, Containers: ended}, now)
	if patch, changed, err := podstatus.Patch(p, p.Status); err != nil || changed {
		t.Errorf("an unchanged status: patch %s, error %v", patch, err)
	}
	final := podstatus.Build(p, podstatus.Observed{Stage: podstatus.Terminated, Containers: ended}, now)
	patch, changed, err := podstatus.Patch(p, final)
	if err != nil || !changed {
		t.Fatalf("changed %t, error %v", changed, err)
	}
	for _, want := range []string{`"uid":"uid-1"`, `"phase":"Succeeded"`} {
		if !strings.Contains(string(patch), want) {
			t.Errorf("the patch lacks %s: %s", want, patch)
		}
	}
	for _, unwanted := range []string{"qosClass", "containerStatuses", "startTime"} {
		if strings.Contains(string(patch), unwanted) {
			t.Errorf("the patch sends %s, which did not change: %s", unwanted, patch)
		}
	}
}
