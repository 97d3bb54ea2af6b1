// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// goneSoon is a nodeGoneDelay for scenarios in which nobody shows a sign of life.
const goneSoon = time.Second

func nodeGoneSoon() options {
	return options{configure: func(c *configv1alpha1.ManagerConfiguration) {
		c.Delays.NodeGoneDelay = &metav1.Duration{Duration: goneSoon}
	}}
}

// scenarios are the ways in which the decision table, the stamps and the orphans come to a write.
func scenarios() []scenario {
	return slices.Concat(ordinaryScenarios(), nodeScenarios(), sharedScenarios(), orphanScenarios(), stampScenarios())
}

// ordinaryScenarios end by the kubelet's word.
func ordinaryScenarios() []scenario {
	return []scenario{
		{name: "an ordinary end", play: func(ctx context.Context, s *stage) func() bool {
			pod := s.running(ctx)
			Expect(admin.Delete(ctx, pod)).To(Succeed())
			s.w.del(ctx, 1)
			kubeletFinishes(ctx, pod)
			return s.finished(ctx, pod)
		}},
		{name: "a lost DEL (row 10)", play: func(ctx context.Context, s *stage) func() bool {
			pod := s.running(ctx)
			Expect(admin.Delete(ctx, pod)).To(Succeed())
			kubeletFinishes(ctx, pod)
			return s.finished(ctx, pod)
		}},
		{name: "a pod that is held and then finished (rows 15 and 10)", play: func(ctx context.Context, s *stage) func() bool {
			pod := s.running(ctx)
			forceDelete(ctx, pod)
			s.await(ctx, "the pod's condition", saysWhy(ctx, pod, v1alpha1.ReasonKubeletNotFinished))
			kubeletFinishes(ctx, pod)
			return s.finished(ctx, pod)
		}},
		{name: "a completed Job, deleted at once (row 13)", play: func(ctx context.Context, s *stage) func() bool {
			pod := s.running(ctx)
			kubeletWrites(ctx, pod, corev1.PodSucceeded, "")
			Expect(admin.Delete(ctx, pod)).To(Succeed())
			return s.finished(ctx, pod)
		}},
		{name: "a completed Job, kept for a while (row 1)", play: func(ctx context.Context, s *stage) func() bool {
			pod := s.running(ctx)
			kubeletWrites(ctx, pod, corev1.PodSucceeded, "")
			s.await(ctx, "the release of a completed pod's address", func() bool { return len(s.w.entries(ctx)) == 0 })
			Expect(admin.Delete(ctx, pod)).To(Succeed())
			return s.finished(ctx, pod)
		}},
		{name: "a pod that was never bound (row 3)", play: func(ctx context.Context, s *stage) func() bool {
			pod := s.w.create(ctx, "unbound", func(p *corev1.Pod) { p.Spec.NodeName = "" })
			Expect(admin.Delete(ctx, pod)).To(Succeed())
			return s.finished(ctx, pod)
		}},
		{name: "a pod without an address (rows 16 and 4)", play: func(ctx context.Context, s *stage) func() bool {
			pod := s.w.create(ctx, "starting")
			forceDelete(ctx, pod)
			s.await(ctx, "the pod's condition", saysWhy(ctx, pod, v1alpha1.ReasonMayBeStarting))
			kubeletFinishes(ctx, pod)
			return s.finished(ctx, pod)
		}},
		{name: "a lost DEL where every patch of the pod fails", play: func(ctx context.Context, s *stage) func() bool {
			pod := s.running(ctx)
			breakPodUpdates(ctx, s.w.namespace)
			Expect(admin.Delete(ctx, pod)).To(Succeed())
			kubeletFinishes(ctx, pod)
			return s.finished(ctx, pod)
		}},
	}
}

// nodeScenarios end by the fate of a node.
func nodeScenarios() []scenario {
	return []scenario{
		{name: "a fenced node (row 5)", play: func(ctx context.Context, s *stage) func() bool {
			pod := s.running(ctx)
			s.w.setReady(ctx, corev1.ConditionUnknown)
			forceDelete(ctx, pod)
			s.await(ctx, "the pod's condition", saysWhy(ctx, pod, v1alpha1.ReasonNodeUnreachable))
			s.w.taintOutOfService(ctx)
			return s.finished(ctx, pod)
		}},
		{name: "a deleted Node (row 6)", options: nodeGoneSoon(), atOnce: true, play: func(ctx context.Context, s *stage) func() bool {
			return s.finished(ctx, s.leftByPodGC(ctx))
		}},
		{name: "a deleted Node, and a pod without an address", options: nodeGoneSoon(), atOnce: true, play: func(ctx context.Context, s *stage) func() bool {
			pod := s.w.create(ctx, "starting")
			s.w.deleteNode(ctx, s.w.node)
			forceDelete(ctx, pod)
			return s.finished(ctx, pod)
		}},
		{name: "a machine that registers again (row 7)", options: nodeGoneSoon(), atOnce: true, play: func(ctx context.Context, s *stage) func() bool {
			pod := s.running(ctx)
			s.w.deleteNode(ctx, s.w.node)
			node := s.w.createNode(ctx, s.w.node, "machine-"+s.w.namespace)
			Expect(admin.Delete(ctx, pod)).To(Succeed())
			s.await(ctx, "the record's new Node UID", func() bool {
				record, there := recordNow(ctx, pod)
				return there && record.Spec.Sandboxes[0].Node.UID == node.UID
			})
			kubeletFinishes(ctx, pod)
			return s.finished(ctx, pod)
		}},
		{name: "a reboot (row 8)", play: func(ctx context.Context, s *stage) func() bool {
			pod := s.running(ctx)
			s.w.reboot(ctx)
			forceDelete(ctx, pod)
			s.await(ctx, "the pod's condition", saysWhy(ctx, pod, v1alpha1.ReasonKubeletNotFinished))
			kubeletFinishes(ctx, pod)
			return s.finished(ctx, pod)
		}},
		{name: "another machine under the node's name (row 9)", options: nodeGoneSoon(), atOnce: true, play: func(ctx context.Context, s *stage) func() bool {
			pod := s.leftByPodGC(ctx)
			s.w.createLaterNode(ctx, pod, "another-machine")
			return s.finished(ctx, pod)
		}},
	}
}

// sharedScenarios are about more than one address, or more than one pod.
func sharedScenarios() []scenario {
	return []scenario{
		{name: "a pod with addresses in two pools", play: func(ctx context.Context, s *stage) func() bool {
			other := s.w.anotherPool(ctx)
			pod := s.running(ctx)
			other.add(ctx, pod, 1, sandboxOf(pod, 1))
			showAddresses(ctx, pod, s.w.ip(1), other.ip(1))
			s.await(ctx, "a record of both", func() bool {
				record, there := recordNow(ctx, pod)
				return there && len(record.Spec.Addresses) == 2
			})
			Expect(admin.Delete(ctx, pod)).To(Succeed())
			kubeletFinishes(ctx, pod)
			finished := s.finished(ctx, pod)
			return func() bool { return finished() && len(other.entries(ctx)) == 0 && !other.reservationExists(ctx, 1) }
		}},
		{name: "an address that another pod has got meanwhile", atOnce: true, play: func(ctx context.Context, s *stage) func() bool {
			last := s.running(ctx)
			next := s.w.create(ctx, "next")
			// CNI DEL and ADD, so close together that one event of the pool tells of both.
			s.w.dropReservation(ctx, 1)
			s.w.add(ctx, next, 1, sandboxOf(next, 1))
			s.w.showStatus(ctx, next, 1)
			kubeletWrites(ctx, next, corev1.PodRunning, "")
			s.await(ctx, "the second record", hasRecord(ctx, next))
			Expect(admin.Delete(ctx, last)).To(Succeed())
			kubeletFinishes(ctx, last)
			s.await(ctx, "the end of the last user", func() bool { return isGone(ctx, last) })
			Expect(s.w.entries(ctx)).To(HaveKeyWithValue("1", HaveField("ContainerID", sandboxOf(next, 1))))
			Expect(admin.Delete(ctx, next)).To(Succeed())
			kubeletFinishes(ctx, next)
			finished := s.finished(ctx, next)
			return func() bool { return finished() && isGone(ctx, last) }
		}},
		{name: "a conflict of namesakes", atOnce: true, play: func(ctx context.Context, s *stage) func() bool {
			first := s.running(ctx)
			forceDelete(ctx, first)
			removeFinalizers(ctx, first)
			second := s.w.create(ctx, first.Name)
			s.w.add(ctx, second, 1, sandboxOf(second, 1))
			s.w.showStatus(ctx, second, 1)
			for _, pod := range []*corev1.Pod{first, second} {
				s.await(ctx, "the conflict of "+string(pod.UID), func() bool {
					state, err := stateOf(ctx, string(pod.UID))()
					return err == nil && state == v1alpha1.StateConflict
				})
			}
			Expect(admin.Delete(ctx, second)).To(Succeed())
			kubeletFinishes(ctx, second)
			s.w.setReady(ctx, corev1.ConditionUnknown)
			s.w.taintOutOfService(ctx)
			finished := s.finished(ctx, second)
			return func() bool { return finished() && isGone(ctx, first) }
		}},
	}
}

// orphanScenarios are about entries that are nobody's.
func orphanScenarios() []scenario {
	return []scenario{
		{name: "an orphan", play: func(ctx context.Context, s *stage) func() bool {
			ghost := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.w.namespace, Name: "ghost", UID: types.UID("ghost-" + s.w.namespace)}}
			s.w.add(ctx, ghost, 1, sandboxOf(ghost, 1))
			name := v1alpha1.OrphanPrefix + sandboxOf(ghost, 1)
			s.await(ctx, "the orphan's state", func() bool {
				state, err := stateOf(ctx, name)()
				return err == nil && state == v1alpha1.StateOrphaned
			})
			return func() bool {
				state, err := stateOf(ctx, name)()
				return err == nil && state == v1alpha1.StateOrphaned && len(s.w.entries(ctx)) == 1
			}
		}},
		{name: "an orphan that somebody takes away", play: func(ctx context.Context, s *stage) func() bool {
			ghost := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.w.namespace, Name: "ghost", UID: types.UID("ghost-" + s.w.namespace)}}
			s.w.add(ctx, ghost, 1, sandboxOf(ghost, 1))
			name := v1alpha1.OrphanPrefix + sandboxOf(ghost, 1)
			s.await(ctx, "the orphan's record", func() bool {
				there, err := recorded(ctx, name)()
				return err == nil && there
			})
			s.w.del(ctx, 1)
			return func() bool {
				there, err := recorded(ctx, name)()
				return err == nil && !there
			}
		}},
	}
}

// stampScenarios are about finalizer and label.
func stampScenarios() []scenario {
	return []scenario{
		{name: "a late stamp", play: func(ctx context.Context, s *stage) func() bool {
			pod := s.w.create(ctx, "missed", func(p *corev1.Pod) { p.Labels, p.Finalizers = nil, nil })
			s.w.add(ctx, pod, 1, sandboxOf(pod, 1))
			s.w.showStatus(ctx, pod, 1)
			kubeletWrites(ctx, pod, corev1.PodRunning, "")
			recorded := hasRecord(ctx, pod)
			return func() bool { return isStamped(ctx, pod) && recorded() && len(s.w.entries(ctx)) == 1 }
		}},
		{name: "a label that was lost", play: func(ctx context.Context, s *stage) func() bool {
			pod := s.running(ctx)
			s.await(ctx, "the record", hasRecord(ctx, pod))
			patch := []byte(`{"metadata":{"labels":{"` + v1alpha1.GuardedLabel + `":null}}}`)
			Expect(admin.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
			recorded := hasRecord(ctx, pod)
			return func() bool { return isStamped(ctx, pod) && recorded() && len(s.w.entries(ctx)) == 1 }
		}},
		{name: "an early unstamp", play: func(ctx context.Context, s *stage) func() bool {
			definition := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: s.w.namespace, Name: "net"},
				Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"cniVersion":"0.3.1","type":"bridge","ipam":{"type":"host-local"}}`}}
			Expect(admin.Create(ctx, definition)).To(Succeed())
			pod := s.w.create(ctx, "unguarded")
			s.w.showStatus(ctx, pod, 1)
			kubeletWrites(ctx, pod, corev1.PodRunning, "")
			return func() bool {
				var live corev1.Pod
				err := admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)
				return err == nil && len(live.Finalizers) == 0 && live.Labels[v1alpha1.GuardedLabel] == ""
			}
		}},
	}
}

// running is a pod with an address, recorded by a manager that lives long enough.
func (s *stage) running(ctx context.Context) *corev1.Pod {
	GinkgoHelper()
	pod := s.w.create(ctx, "web")
	s.w.add(ctx, pod, 1, sandboxOf(pod, 1))
	s.w.showStatus(ctx, pod, 1)
	kubeletWrites(ctx, pod, corev1.PodRunning, "")
	s.await(ctx, "the record", hasRecord(ctx, pod))
	return pod
}

// leftByPodGC is a pod as PodGC leaves it when its Node was deleted.
func (s *stage) leftByPodGC(ctx context.Context) *corev1.Pod {
	GinkgoHelper()
	pod := s.running(ctx)
	s.w.deleteNode(ctx, s.w.node)
	writePhase(ctx, pod, corev1.PodFailed, "", "kube-controller-manager")
	forceDelete(ctx, pod)
	return pod
}

// finished: no pod, no entry, no reservation, no record.
func (s *stage) finished(ctx context.Context, pod *corev1.Pod) func() bool {
	return func() bool { return isGone(ctx, pod) && len(s.w.entries(ctx)) == 0 && !s.w.reservationExists(ctx, 1) }
}

// isGone: neither the very pod nor its record is left.
func isGone(ctx context.Context, pod *corev1.Pod) bool {
	podThere, podErr := exists(ctx, pod)()
	recordThere, recordErr := recorded(ctx, string(pod.UID))()
	return podErr == nil && recordErr == nil && !podThere && !recordThere
}

// recordNow is the pod's record; there is false while it has none.
func recordNow(ctx context.Context, pod *corev1.Pod) (record v1alpha1.IPAllocation, there bool) {
	err := admin.Get(ctx, key("", string(pod.UID)), &record)
	return record, err == nil
}

// hasRecord: the pod's address and its sandbox's machine are written down.
func hasRecord(ctx context.Context, pod *corev1.Pod) func() bool {
	return func() bool {
		record, there := recordNow(ctx, pod)
		return there && len(record.Spec.Sandboxes) > 0 && record.Spec.Sandboxes[0].Node != nil
	}
}

func saysWhy(ctx context.Context, pod *corev1.Pod, reason v1alpha1.Reason) func() bool {
	return func() bool {
		said, err := condition(ctx, pod)()
		return err == nil && said == string(reason)
	}
}

func isStamped(ctx context.Context, pod *corev1.Pod) bool {
	var live corev1.Pod
	err := admin.Get(ctx, client.ObjectKeyFromObject(pod), &live)
	return err == nil && slices.Contains(live.Finalizers, v1alpha1.Finalizer) && live.Labels[v1alpha1.GuardedLabel] == v1alpha1.GuardedLabelValue
}
