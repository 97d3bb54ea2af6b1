// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/release"
)

// TestANodeThatIsDownIsNotItsAgentsFault: the agent's pod is not Ready either, and is not the cause.
func TestANodeThatIsDownIsNotItsAgentsFault(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus, labels map[string]string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	f := wellInstalled(t)
	withAgents(f)
	f.AgentPods = []corev1.Pod{managerPod("well", corev1.ConditionTrue), managerPod("frozen", corev1.ConditionFalse)}
	f.Nodes = release.Known([]corev1.Node{node("well", corev1.ConditionTrue, nil), node("frozen", corev1.ConditionUnknown, nil), node("bare", corev1.ConditionTrue, nil),
		node("windows", corev1.ConditionFalse, map[string]string{corev1.LabelOSStable: "windows"})})
	var got []string
	for _, check := range Diagnose(f, now).Checks {
		if check.Name == "agents" {
			got = append(got, string(check.Level)+" "+check.Found)
		}
	}
	want := []string{"FAIL no agent is Ready on bare", "FAIL the node is not Ready, and so neither is its agent: frozen"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
}

// TestAManagerThatWasScaledToNothing: there are no pods to look at; what helps is to scale it back.
func TestAManagerThatWasScaledToNothing(t *testing.T) {
	f := wellInstalled(t)
	f.Namespace, f.Pods = "guard", nil
	f.Manager = release.Known(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(0)), Template: containers("ghcr.io/x/manager:v0.1.0")}})
	for _, check := range Diagnose(f, now).Checks {
		if check.Name != "manager replicas" {
			continue
		}
		if check.Level != Fail || !strings.Contains(check.Found, "the Deployment is scaled to 0") || !strings.Contains(check.Do, "kubectl -n guard scale deployment/holdfast-manager --replicas=2") {
			t.Errorf("got %+v", check)
		}
	}
}
