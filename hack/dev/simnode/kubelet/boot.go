// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/podstatus"
)

// adopt takes over what the runtime has of the pod from before the kubelet's
// start, as after a reboot: a dead sandbox is taken down like any that died, CNI
// DEL included. A machine that replaced another one knows no sandbox, so CNI
// DEL is never called for its predecessor's.
func (w *worker) adopt() {
	id, found := w.Runtime.Listed(string(w.uid))
	if !found {
		return
	}
	w.sandbox, w.startedIn = id, id
	w.containers = podstatus.Running(w.pod.Status.ContainerStatuses)
}

// collect takes down the sandboxes of pods that are gone, CNI DEL included: a kubelet
// does so once it knows its pods, containerd with a DEL for each sandbox that it
// removes (kuberuntime_gc.go, evictSandboxes; containerd, RemovePodSandbox).
func (k *Kubelet) collect(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), k.pods.HasSynced) {
		return
	}
	for _, ref := range k.Runtime.Pods() {
		uid := types.UID(ref.UID)
		if pod, err := k.latest(uid); err != nil || pod != nil {
			continue // it has its worker
		}
		k.wake(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: uid}})
	}
}

// awaitNetwork is an error while the pod needs a network that the machine cannot
// give (kubelet.go, syncPod).
func (w *worker) awaitNetwork() error {
	if w.pod.Spec.HostNetwork {
		return nil
	}
	if err := w.NetworkReady(); err != nil {
		w.Recorder.Eventf(w.pod, corev1.EventTypeWarning, "NetworkNotReady", "network is not ready: %v", err)
		return fmt.Errorf("network is not ready: %w", err)
	}
	return nil
}
