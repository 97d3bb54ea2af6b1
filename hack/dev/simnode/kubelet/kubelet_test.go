// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

const starts = "report, ADD, report phase Running"

// expect compares what the kubelet did since the last look.
func (b *bench) expect(what, want string) {
	b.t.Helper()
	if got := joined(b.did()); got != want {
		b.t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func TestStart(t *testing.T) {
	onBench(t, func(b *bench) {
		b.create(nil)
		b.expect("a pod that starts", starts)
		if ip := b.pod().Status.PodIP; ip != "10.244.0.2" {
			t.Errorf("pod IP %q", ip)
		}
		b.pass(time.Hour)
		b.expect("a pod that runs", "")
	})
}

func TestHostNetworkPodMeetsNoCNI(t *testing.T) {
	onBench(t, func(b *bench) {
		b.create(func(p *corev1.Pod) { p.Spec.HostNetwork = true })
		b.expect("a pod that starts", "report, report phase Running")
		if ip := b.pod().Status.PodIP; ip != "203.0.113.10" {
			t.Errorf("pod IP %q", ip)
		}
	})
}

func TestEndOfADeletedPod(t *testing.T) {
	for name, grace := range map[string]int64{"in a grace period": 30, "by force, while a finalizer holds it": 0} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(b *bench) {
				b.create(nil)
				b.did()
				b.change(deleting(grace))
				b.expect("at once", "DEL, report, report phase Succeeded, delete")
				b.change(func(p *corev1.Pod) { p.Annotations = map[string]string{"changed": "by a user"} })
				b.pass(time.Hour)
				b.expect("after the DELETE", "")
			})
		})
	}
}

func TestNothingIsReportedWhileDELFails(t *testing.T) {
	onBench(t, func(b *bench) {
		b.create(nil)
		b.did()
		b.fail("", "the plugin died")
		b.change(deleting(1))
		b.expect("at the first try", "DEL")
		if phase := b.pod().Status.Phase; phase != corev1.PodRunning {
			t.Errorf("phase %s", phase)
		}
		b.fail("", "")
		b.pass(time.Second)
		b.expect("once DEL succeeds", "DEL, report, report phase Succeeded, delete")
	})
}

func TestAPodThatNeverStartedIsFailedWhenDeleted(t *testing.T) {
	onBench(t, func(b *bench) {
		b.fail("the pool is full", "")
		b.create(nil)
		b.expect("a pod whose ADD fails", "report, ADD, DEL")
		b.change(deleting(1))
		b.pass(time.Second)
		b.expect("its end", "report phase Failed, delete")
	})
}

func TestAFailedADDIsFollowedByItsDELAndAnotherSandbox(t *testing.T) {
	onBench(t, func(b *bench) {
		b.fail("the pool is full", "")
		b.create(nil)
		b.did()
		b.pass(time.Second)
		b.expect("the second attempt", "ADD, DEL")
		if phase := b.pod().Status.Phase; phase != corev1.PodPending {
			t.Errorf("phase %s", phase)
		}
		b.fail("", "")
		b.pass(time.Second)
		b.expect("an attempt that succeeds", "ADD, report phase Running")
		if sandboxes := b.runtime.List(); len(sandboxes) != 3 || b.alive() != 1 {
			t.Errorf("%d sandboxes, %d of them alive", len(sandboxes), b.alive())
		}
	})
}

func TestCompletedPod(t *testing.T) {
	onBench(t, func(b *bench) {
		b.create(func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Annotations[api.RunAnnotation] = "1m"
		})
		b.expect("its start", starts)
		b.pass(time.Minute)
		b.expect("its end", "report, DEL, report, report phase Succeeded")
		if b.alive() != 0 {
			t.Error("its sandbox lives")
		}
		b.change(deleting(0))
		b.expect("its deletion", "delete")
	})
}

func TestAPodThatVanishedIsTornDownWithoutAReport(t *testing.T) {
	onBench(t, func(b *bench) {
		b.create(nil)
		b.did()
		b.vanish()
		b.expect("a pod that was force-deleted", "DEL")
		if b.alive() != 0 {
			t.Error("its sandbox lives")
		}
	})
}

func TestAPodOfTheSameNameIsAnotherPod(t *testing.T) {
	onBench(t, func(b *bench) {
		b.create(nil)
		b.did()
		b.vanish()
		b.create(func(p *corev1.Pod) { p.UID = "uid-2" })
		b.expect("the old one's end and the new one's start", "DEL, "+starts)
	})
}

func TestAPhaseThatPodGCMadeTerminalEndsTheSandbox(t *testing.T) {
	onBench(t, func(b *bench) {
		b.create(nil)
		b.did()
		b.change(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		b.expect("the kubelet's part", "DEL, report")
		if b.alive() != 0 {
			t.Error("its sandbox lives")
		}
	})
}

func TestFrozenKubeletDoesNothingUntilItIsThawed(t *testing.T) {
	onBench(t, func(b *bench) {
		b.create(nil)
		b.did()
		b.gate.Close()
		b.change(deleting(1))
		b.pass(time.Hour)
		b.expect("while it is frozen", "")
		if b.alive() != 1 {
			t.Error("the sandbox did not live on")
		}
		b.gate.Open()
		b.wait()
		b.expect("once it is thawed", "DEL, report, report phase Succeeded, delete")
	})
}

func TestKilledSandbox(t *testing.T) {
	for name, tc := range map[string]struct {
		policy corev1.RestartPolicy
		want   string
		alive  int
	}{
		"gives way to another one of the same pod": {corev1.RestartPolicyAlways, "report, DEL, ADD, report", 1},
		"ends a pod whose containers may run once": {corev1.RestartPolicyNever, "DEL, report, report phase Failed", 0},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(b *bench) {
				b.create(func(p *corev1.Pod) { p.Spec.RestartPolicy = tc.policy })
				b.did()
				b.die(b.runtime.List()[0].ID)
				b.expect("after the sandbox was killed", tc.want)
				if b.alive() != tc.alive {
					t.Errorf("%d live sandboxes, want %d", b.alive(), tc.alive)
				}
			})
		})
	}
}

func TestPowerOffLeavesEverythingAsItIs(t *testing.T) {
	onBench(t, func(b *bench) {
		b.create(nil)
		b.did()
		b.runtime.PowerOff()
		b.stop()
		b.wait()
		b.expect("a machine that died", "")
	})
}
