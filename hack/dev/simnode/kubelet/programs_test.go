// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAPodsProgramsStartInEverySandbox(t *testing.T) {
	onBench(t, func(b *bench) {
		b.create(nil)
		first, _ := b.runtime.Listed("uid-1")
		b.die(first)
		second, _ := b.runtime.Listed("uid-1")
		b.probe(true) // another look starts nothing
		if want := []string{first, second}; first == second || !slices.Equal(b.startedIn, want) {
			t.Errorf("programs were started in %q, want %q", b.startedIn, want)
		}
	})
}

func TestAPodWhoseProbesFailRunsAndIsNotReady(t *testing.T) {
	onBench(t, func(b *bench) {
		b.create(nil)
		for _, passes := range []bool{false, true} {
			b.probe(passes)
			status := b.pod().Status
			if status.Phase != corev1.PodRunning || status.ContainerStatuses[0].Ready != passes || isReady(status) != passes {
				t.Errorf("with probes that pass: %t: phase %s, container ready %t, pod ready %t",
					passes, status.Phase, status.ContainerStatuses[0].Ready, isReady(status))
			}
		}
	})
}

func isReady(status corev1.PodStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func TestTheRuntimeShowsWhichContainersRun(t *testing.T) {
	onBench(t, func(b *bench) {
		running := func(want int) {
			t.Helper()
			_, containers := b.runtime.Table()
			got := 0
			for _, c := range containers {
				if !c.Exited {
					got++
				}
			}
			if got != want {
				t.Errorf("%d containers run, want %d: %+v", got, want, containers)
			}
		}
		b.create(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "app"}}
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Image: "app"})
		})
		running(2)
		b.change(deleting(1))
		running(0)
	})
}
