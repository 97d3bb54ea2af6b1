// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/podstatus"
)

// report is the status manager: it reads the pod, and patches what differs into
// its status unless the pod is gone or another one has its name (status_manager.go,
// syncPod).
func (w *worker) report(ctx context.Context) error {
	if _, changed, err := w.patch(w.pod); err == nil && !changed {
		return nil
	}
	pod, err := w.Client.CoreV1().Pods(w.pod.Namespace).Get(ctx, w.pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && pod.UID != w.uid {
		return nil
	}
	if err != nil {
		return w.reportError(err)
	}
	patch, changed, err := w.patch(pod)
	if err != nil || !changed {
		return err
	}
	pod, err = w.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return w.reportError(err)
	}
	w.pod = pod // what this step continues with; the next one reads the cache again
	return nil
}

func (w *worker) patch(pod *corev1.Pod) (patch []byte, changed bool, err error) {
	return podstatus.Patch(pod, podstatus.Build(pod, podstatus.Observed{
		Stage:        w.stage,
		SandboxReady: w.sandbox != "" && w.sandbox == w.startedIn && w.Runtime.Alive(w.sandbox),
		HostIP:       w.HostIP,
		PodIP:        w.podIP,
		Containers:   w.containers,
		Unready:      !w.PassesProbes(w.pod),
	}, w.Clock.Now()))
}

func (w *worker) reportError(err error) error {
	return fmt.Errorf("reporting the status of pod %s/%s: %w", w.pod.Namespace, w.pod.Name, err)
}

// addNetworks is CNI ADD, with its trace in the runtime's history.
func (w *worker) addNetworks(ctx context.Context, id string) (string, error) {
	ip, err := w.Networks.Add(ctx, id, w.pod, func(address api.Address) { w.Runtime.Attach(id, address) })
	if err != nil {
		w.Runtime.Note(id, api.EventAddFailed, "", err.Error())
	}
	return ip, err
}

// removeNetworks is CNI DEL, with its trace in the runtime's history. What whereabouts
// drops is an error for the history alone.
func (w *worker) removeNetworks(ctx context.Context) error {
	results, err := w.Networks.Del(ctx, w.sandbox, w.pod)
	for _, result := range results {
		event, message := api.EventDel, result.Address.Network+" "+result.Address.Interface
		if result.Err != nil {
			event, message = api.EventDelFailed, message+": "+result.Err.Error()
		}
		w.Runtime.Note(w.sandbox, event, result.Address.IP, message)
	}
	if err != nil {
		w.Runtime.Note(w.sandbox, api.EventDelFailed, "", err.Error())
	}
	return err
}
