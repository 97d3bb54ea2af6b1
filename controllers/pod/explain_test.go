// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// testSlack is the slack of these tests, and unusual the time after it from which on a wait is explained.
const (
	testSlack = 30 * time.Second
	unusual   = 10 * time.Second
)

// late is a pod that is still running when its slack ends, now.
func late() *corev1.Pod {
	pod := onepod.DeletedPod()
	pod.DeletionTimestamp = &metav1.Time{Time: onepod.Now.Add(-testSlack)}
	pod.Status.Phase = corev1.PodRunning
	return pod
}

// withAgent has a pod on a node with an agent.
func withAgent(t *testing.T, pod *corev1.Pod, node *corev1.Node) *world {
	t.Helper()
	f := newWorld(t, pod, onepod.RecordOfOld(onepod.OldMachine()), &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, node)
	f.r.options.Evidence = release.EvidenceAgent
	f.r.options.Settings.GracePeriodSlack, f.r.options.Settings.ResponseWithin = testSlack, time.Minute
	return f
}

// reasonOnPod is the reason in the condition of the pod of the one name.
func (f *world) reasonOnPod() v1alpha1.Reason {
	f.Helper()
	var pod corev1.Pod
	if err := f.Truth.Get(f.Context(), client.ObjectKey{Namespace: "default", Name: "web-1"}, &pod); err != nil {
		f.Fatal(err)
	}
	is := func(c corev1.PodCondition) bool { return c.Type == v1alpha1.IPsReleasedCondition }
	if at := slices.IndexFunc(pod.Status.Conditions, is); at >= 0 {
		return v1alpha1.Reason(pod.Status.Conditions[at].Reason)
	}
	return ""
}

// explanation is the reason that pod and record give, and the number of events so far; they have to agree.
func (f *world) explanation() (reason string, events int) {
	f.Helper()
	reason = string(f.reasonOnPod())
	onRecord := ""
	for _, c := range f.Record().Status.Conditions {
		onRecord = c.Reason
	}
	if onRecord != reason {
		f.Errorf("the pod says %q, the record %q", reason, onRecord)
	}
	return reason, len(f.Recorder.Events)
}

func (f *world) isExplained(when string, reason v1alpha1.Reason, events int) {
	f.Helper()
	if got, n := f.explanation(); got != string(reason) || n != events {
		f.Errorf("%s: explained by %q with %d events, want %q with %d", when, got, n, reason, events)
	}
}

// TestAWaitForALateKubeletIsExplainedOnce: a third of the slack after the slack, though the agent was queried and responded before.
func TestAWaitForALateKubeletIsExplainedOnce(t *testing.T) {
	f := withAgent(t, late(), onepod.Node("node", "node-1", "m1"))
	if result, err := f.r.Reconcile(t.Context(), "old"); err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > unusual {
		t.Errorf("%+v, %v; expected another look after at most %s", result, err, unusual)
	}
	f.holdsUntil(0)
	f.isExplained("when the agent is queried", "", 0)
	f.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxRunning, "old")
	f.holdsUntil(unusual - time.Second)
	f.isExplained("when the agent has responded", "", 0)
	f.holdsUntil(unusual, unusual+time.Second)
	f.isExplained("when the wait is unusual", v1alpha1.ReasonSandboxRunning, 1)
}

// TestAnExplanationThatStandsIsKeptUpToDate: a wait for a Node that is not Ready is explained at once, and so is what comes next.
func TestAnExplanationThatStandsIsKeptUpToDate(t *testing.T) {
	f := withAgent(t, late(), notReady(onepod.Node("node", "node-1", "m1")))
	f.holdsUntil(0)
	f.isExplained("with a Node that is not Ready", v1alpha1.ReasonNodeUnreachable, 1)
	f.Apply(onepod.Node("node", "node-1", "m1"))
	f.holdsUntil(time.Second)
	f.isExplained("once it is Ready", v1alpha1.ReasonAwaitingNodeResponse, 2)
}

// TestAWaitAgainstTheKubeletsReportIsExplainedAtOnce: the kubelet terminated the pod an hour before the end of its grace period, and its agent has the
// sandbox. Nothing ends that by itself.
func TestAWaitAgainstTheKubeletsReportIsExplainedAtOnce(t *testing.T) {
	pod := finishedAfter(time.Minute)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: onepod.Now.Add(time.Hour)}, new(int64(2*60*60))
	f := withAgent(t, pod, onepod.Node("node", "node-1", "m1"))
	f.holdsUntil(0)
	f.respond("old-sandbox", v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxRunning, "old")
	f.holdsUntil(time.Second)
	if reason, _ := f.explanation(); reason != string(v1alpha1.ReasonSandboxRunning) {
		t.Errorf("explained by %q, want SandboxRunning", reason)
	}
}
