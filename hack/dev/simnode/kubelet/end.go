// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/podstatus"
)

// awaitEnd looks whether the containers have run as long as they wanted to. If
// so, the kubelet reports them with the phase unchanged, and terminates the pod.
func (w *worker) awaitEnd(ctx context.Context) next {
	run, limited := w.runTime()
	if !limited {
		return next{}
	}
	if rest := w.startTime().Add(run).Sub(w.Clock.Now()); rest > 0 {
		return next{after: rest}
	}
	w.endContainers(0)
	if err := w.report(ctx); err != nil { // kubelet's status writes hold up nothing
		w.Log.Warn("end of containers not reported", "node", w.Node, "uid", w.uid, "err", err)
	}
	w.stage = podstatus.Terminating
	return next{}
}

func (w *worker) runTime() (time.Duration, bool) {
	if w.pod.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return 0, false
	}
	run, err := time.ParseDuration(w.pod.Annotations[api.RunAnnotation])
	return run, err == nil && run >= 0
}

// terminate is SyncTerminatingPod: the containers end, then every sandbox of the
// pod is stopped, and only then their end is reported. The phase stays as it is.
func (w *worker) terminate(ctx context.Context) (next, error) {
	w.endContainers(0)                       // at once: no program here takes its time
	if err := w.Gate.Wait(ctx); err != nil { // StopPodSandbox is a call of the kubelet's
		return next{}, err
	}
	if err := w.teardown(ctx); err != nil {
		w.Recorder.Eventf(w.pod, corev1.EventTypeWarning, "FailedKillPod", "error killing pod: %v", err)
		return next{}, err
	}
	if !w.gone {
		if err := w.report(ctx); err != nil {
			return next{}, err
		}
	}
	w.stage = podstatus.Terminated
	return next{}, nil
}

// teardown is StopPodSandbox in containerd's order: the process ends, CNI DEL,
// the network namespace is closed. After an error of DEL the sandbox stays listed
// as NOTREADY, and the next call continues.
func (w *worker) teardown(ctx context.Context) error {
	if w.sandbox == "" {
		return nil
	}
	w.Runtime.Stop(w.sandbox)
	if !w.pod.Spec.HostNetwork {
		if err := w.removeNetworks(ctx); err != nil {
			return err
		}
	}
	w.Runtime.CloseNetNS(w.sandbox)
	w.Runtime.Remove(w.sandbox)
	w.sandbox = ""
	return nil
}

// finish is SyncTerminatedPod and what the status manager makes of it: the
// terminal phase, and once the pod is being deleted, the DELETE with grace
// period 0 and the UID as precondition. After that it writes nothing.
func (w *worker) finish(ctx context.Context) (next, error) {
	if w.gone {
		return next{done: true}, nil
	}
	if !w.finished {
		if err := w.report(ctx); err != nil {
			return next{}, err
		}
		w.finished = true
	}
	if w.pod.DeletionTimestamp == nil || w.deleteSent {
		return next{}, nil
	}
	err := w.Client.CoreV1().Pods(w.pod.Namespace).Delete(ctx, w.pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(w.uid)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return next{}, fmt.Errorf("deleting pod %s/%s: %w", w.pod.Namespace, w.pod.Name, err)
	}
	w.deleteSent = true
	return next{}, nil
}
