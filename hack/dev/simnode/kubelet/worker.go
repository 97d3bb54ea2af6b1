// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/podstatus"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/runtime"
)

// worker takes one pod UID through its life. It is level-triggered: each step
// looks at the pod and the sandbox and does what comes next. Only its own
// goroutine touches its fields, apart from the signal.
type worker struct {
	*Kubelet
	uid    types.UID
	signal chan struct{}

	pod   *corev1.Pod // as last seen; stays when the object is gone
	gone  bool
	stage podstatus.Stage

	sandbox    string // its ID; empty when there is none
	startedIn  string // the sandbox in which the containers were started
	podIP      string
	containers map[string]podstatus.Container
	hookedIn   string    // the sandbox in which OnStart is through
	notBefore  time.Time // of the next sandbox, after one that failed

	finished   bool // the terminal phase is reported
	deleteSent bool
}

func newWorker(k *Kubelet, pod *corev1.Pod) *worker {
	w := &worker{
		Kubelet: k, uid: pod.UID, pod: pod, signal: make(chan struct{}, 1), stage: podstatus.Syncing,
		containers: map[string]podstatus.Container{},
	}
	w.adopt()
	return w
}

func (w *worker) wake() {
	select {
	case w.signal <- struct{}{}:
	default: // it will look anyway
	}
}

// next is when the worker looks again without being woken.
type next struct {
	after time.Duration // zero: only when woken
	done  bool          // never: the pod is gone from API server and machine
}

func (w *worker) run(ctx context.Context) {
	for {
		if w.Gate.Wait(ctx) != nil {
			return
		}
		n, err := w.step(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.Log.Warn("pod not in its wanted state yet", "node", w.Node, "pod", w.pod.Namespace+"/"+w.pod.Name, "uid", w.uid, "err", err)
			n = next{after: w.Retry}
		}
		if n.done {
			w.forget(w.uid)
			return
		}
		if !w.sleep(ctx, n.after) {
			return
		}
	}
}

// sleep returns true when woken or when the time is over.
func (w *worker) sleep(ctx context.Context, d time.Duration) bool {
	var over <-chan time.Time
	if d > 0 {
		timer := w.Clock.NewTimer(d)
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case <-w.signal:
	case <-over:
	case <-ctx.Done():
		return false
	}
	return true
}

func (w *worker) step(ctx context.Context) (next, error) {
	if err := w.observe(); err != nil {
		return next{}, err
	}
	for _, part := range []struct {
		stage podstatus.Stage
		run   func(context.Context) (next, error)
	}{{podstatus.Syncing, w.sync}, {podstatus.Terminating, w.terminate}} {
		if w.stage != part.stage {
			continue
		}
		if n, err := part.run(ctx); err != nil || w.stage == part.stage {
			return n, err
		}
	}
	return w.finish(ctx)
}

// observe looks at the pod. Once it is terminating there is no way back
// (pkg/kubelet/pod_workers.go).
func (w *worker) observe() error {
	pod, err := w.latest(w.uid)
	if err != nil {
		return err
	}
	if w.gone = pod == nil; !w.gone {
		w.pod = pod
	}
	if w.stage == podstatus.Syncing && (w.gone || w.pod.DeletionTimestamp != nil || podstatus.IsTerminal(w.pod.Status.Phase)) {
		w.stage = podstatus.Terminating
	}
	return nil
}

// sync makes the pod run: sandbox, containers, report.
func (w *worker) sync(ctx context.Context) (next, error) {
	if w.sandbox != "" && !w.Runtime.Alive(w.sandbox) {
		if err := w.sandboxDied(ctx); err != nil || w.stage != podstatus.Syncing {
			return next{}, err
		}
	}
	if w.sandbox == "" {
		if wait := w.notBefore.Sub(w.Clock.Now()); wait > 0 {
			return next{after: wait}, nil
		}
		if err := w.awaitNetwork(); err != nil {
			return next{}, err
		}
		if err := w.createSandbox(ctx); err != nil {
			return next{}, err
		}
		w.wake() // CNI ADD takes time: the pod may be deleted meanwhile
		return next{}, nil
	}
	w.startContainers()
	if w.hookedIn != w.sandbox {
		if err := w.OnStart(ctx, w.pod); err != nil {
			return next{}, err
		}
		w.hookedIn = w.sandbox
	}
	if err := w.report(ctx); err != nil {
		return next{}, err
	}
	return w.awaitEnd(ctx), nil
}

// createSandbox reports the pod as Pending, then makes a sandbox with its
// networks. A sandbox whose CNI ADD failed is taken down with CNI DEL; the next
// attempt is another sandbox.
func (w *worker) createSandbox(ctx context.Context) error {
	if err := w.report(ctx); err != nil {
		return err
	}
	id, _ := w.Runtime.Create(runtime.PodRef{UID: string(w.uid), Namespace: w.pod.Namespace, Name: w.pod.Name})
	w.sandbox = id
	ip, err := w.HostIP, error(nil)
	if !w.pod.Spec.HostNetwork {
		ip, err = w.addNetworks(ctx, id)
	}
	if err == nil && !w.Runtime.Ready(id) {
		err = errors.New("the sandbox died while it was made")
	}
	if err != nil {
		w.notBefore = w.Clock.Now().Add(w.Retry)
		w.Recorder.Eventf(w.pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox %s: %v", id, err)
		return errors.Join(err, w.teardown(ctx))
	}
	w.podIP = ip
	return nil
}

// sandboxDied takes down what is left of it. Containers die with their sandbox.
func (w *worker) sandboxDied(ctx context.Context) error {
	w.endContainers(podstatus.ExitKilled)
	if len(w.containers) > 0 {
		w.Recorder.Event(w.pod, corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		if w.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			w.stage = podstatus.Terminating
			return nil
		}
	}
	if err := w.report(ctx); err != nil {
		return err
	}
	return w.teardown(ctx)
}
