// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/runtime"
)

// ranBefore is a pod whose container ran, once restarted, before the kubelet's
// start.
func ranBefore(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.RestartPolicy = policy
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", ContainerID: "simulated://c1", RestartCount: 1,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}
	}
}

// reboot leaves a dead sandbox of the pod on the machine.
func (b *bench) reboot() {
	id, _ := b.runtime.Create(runtime.PodRef{UID: "uid-1", Namespace: "ns", Name: "web-0"})
	b.runtime.Ready(id)
	b.runtime.PowerOff()
	b.runtime.PowerOn()
}

func TestAfterARebootTheOldSandboxIsTakenDownFirst(t *testing.T) {
	onBench(t, func(b *bench) {
		b.reboot()
		b.create(ranBefore(corev1.RestartPolicyAlways))
		b.expect("a pod that runs again", "report, DEL, ADD, report")
		if got := b.pod().Status.ContainerStatuses[0].RestartCount; got != 2 {
			t.Errorf("restart count %d, want 2", got)
		}
		if list := b.runtime.List(); len(list) != 2 || list[0].Alive || !list[1].Alive || list[1].Attempt != 1 {
			t.Errorf("sandboxes: %+v", list)
		}
	})
}

func TestAfterARebootAPodThatRestartsNothingEnds(t *testing.T) {
	onBench(t, func(b *bench) {
		b.reboot()
		b.create(ranBefore(corev1.RestartPolicyNever))
		if phase := b.pod().Status.Phase; phase != corev1.PodFailed {
			t.Errorf("phase %s, want Failed", phase)
		}
		if b.alive() != 0 {
			t.Error("it has a live sandbox")
		}
	})
}

func TestAfterABootTheSandboxesOfPodsThatAreGoneAreTakenDown(t *testing.T) {
	booted := func(t *testing.T, f func(*bench)) {
		t.Helper()
		onBenchAfter(t, func(b *bench) {
			b.reboot()
			b.create(nil)
			id, _ := b.runtime.Create(runtime.PodRef{UID: "uid-gone", Namespace: "ns", Name: "web-1"})
			b.runtime.Stop(id)
		}, f)
	}
	booted(t, func(b *bench) {
		b.pass(time.Minute)
		dels := 0
		for _, line := range b.did() {
			if line == "DEL" {
				dels++
			}
		}
		if dels != 2 {
			t.Errorf("%d calls of DEL, want one for the pod that is gone and one for the one that runs again", dels)
		}
		if _, found := b.runtime.Listed("uid-gone"); found {
			t.Error("the sandbox of the pod that is gone is still listed")
		}
		if b.alive() != 1 {
			t.Errorf("%d live sandboxes, want that of the pod which is there", b.alive())
		}
	})
}

func TestAReplacementRunsThePodsOfItsNameWithNoDEL(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"a running pod":                       ranBefore(corev1.RestartPolicyAlways),
		"a running pod that restarts nothing": ranBefore(corev1.RestartPolicyNever), // kubernetes#141365
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(b *bench) {
				b.create(change)
				for _, line := range b.did() {
					if line == "DEL" {
						t.Error("CNI DEL for a sandbox that this machine never had")
					}
				}
				if b.alive() != 1 {
					t.Errorf("%d live sandboxes, want a new one", b.alive())
				}
			})
		})
	}
}

func TestAReplacementFinishesADeletingPodWithNoDEL(t *testing.T) {
	onBench(t, func(b *bench) {
		b.create(func(p *corev1.Pod) {
			ranBefore(corev1.RestartPolicyAlways)(p)
			deleting(1)(p)
		})
		for _, line := range b.did() {
			if line == "DEL" || line == "ADD" {
				t.Errorf("%s for a pod that is being deleted", line)
			}
		}
	})
}

func TestAPodWaitsForTheNetwork(t *testing.T) {
	onBench(t, func(b *bench) {
		b.setNetwork(errors.New("no CNI"))
		b.create(nil)
		b.pass(time.Minute)
		b.expect("without a network", "")
		b.setNetwork(nil)
		b.pass(2 * time.Second)
		b.expect("with a network", starts)
	})
}

func TestAPodOnTheHostsNetworkWaitsForNone(t *testing.T) {
	onBench(t, func(b *bench) {
		b.setNetwork(errors.New("no CNI"))
		b.create(func(p *corev1.Pod) { p.Spec.HostNetwork = true })
		b.expect("a pod that starts", "report, report phase Running")
	})
}
