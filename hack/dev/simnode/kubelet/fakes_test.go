// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/cni"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/node"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/runtime"
)

// bench is a kubelet between a fake API server, a fake CNI and the simulated
// runtime. journal is the order in which it did things.
type bench struct {
	t       *testing.T
	client  *fake.Clientset
	gate    *node.Gate
	runtime *runtime.Runtime
	stop    context.CancelFunc

	mutex          sync.Mutex
	journal        []string
	addErr, delErr error
	noNetwork      error
	// startedIn are the sandboxes in which programs were started, and unready says that their probes fail.
	startedIn []string
	unready   bool
	kubelet   *Kubelet
}

// onBench runs f with a running kubelet in a bubble whose clock moves only when
// everybody waits.
func onBench(t *testing.T, f func(*bench)) {
	t.Helper()
	onBenchAfter(t, func(*bench) {}, f)
}

// onBenchAfter has something happen before the kubelet starts.
func onBenchAfter(t *testing.T, before, f func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, client: fake.NewClientset(), gate: &node.Gate{}}
		history := runtime.NewHistory(clock.RealClock{})
		b.runtime = runtime.New("node-a", clock.RealClock{}, history)
		b.client.PrependReactor("*", "pods", b.record)
		k := New(Options{
			Node: "node-a", HostIP: "203.0.113.10", Client: b.client, Gate: b.gate, Runtime: b.runtime, Networks: b,
			NetworkReady: b.networkReady, Recorder: &record.FakeRecorder{}, OnStart: b.onStart, PassesProbes: b.passesProbes,
			Retry: time.Second, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler),
		})
		b.kubelet = k
		before(b)
		ctx, cancel := context.WithCancel(t.Context())
		b.stop = cancel
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }()
		synctest.Wait()
		f(b)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func (b *bench) note(line string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.journal = append(b.journal, line)
}

// record notes what is written to the API server.
func (b *bench) record(action clienttesting.Action) (bool, apiruntime.Object, error) {
	switch a := action.(type) {
	case clienttesting.PatchActionImpl:
		var patch corev1.Pod
		if err := json.Unmarshal(a.GetPatch(), &patch); err != nil {
			return true, nil, err
		}
		line := "report"
		if patch.Status.Phase != "" {
			line += " phase " + string(patch.Status.Phase)
		}
		if patch.UID == "" || a.Subresource != "status" {
			line = "patch without UID, or not of the status"
		}
		b.note(line)
	case clienttesting.DeleteActionImpl:
		line := "delete"
		if o := a.DeleteOptions; o.GracePeriodSeconds == nil || *o.GracePeriodSeconds != 0 || o.Preconditions == nil || o.Preconditions.UID == nil {
			line = "delete without grace 0 or UID"
		}
		b.note(line)
		return true, nil, nil // a finalizer holds it
	}
	return false, nil, nil
}

// Add and Del are the CNI of the bench.
func (b *bench) Add(_ context.Context, _ string, _ *corev1.Pod, record cni.Recorder) (string, error) {
	b.note("ADD")
	addErr, _ := b.failures()
	if addErr == nil {
		record(api.Address{Interface: "net1", IP: "10.0.0.1", Network: "ns/wb"})
	}
	return "10.244.0.2", addErr
}

func (b *bench) Del(_ context.Context, id string, _ *corev1.Pod) ([]cni.Result, error) {
	if b.runtime.Alive(id) {
		b.note("DEL of a live sandbox")
	}
	b.note("DEL")
	_, delErr := b.failures()
	return nil, delErr
}

func (b *bench) failures() (addErr, delErr error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.addErr, b.delErr
}

func (b *bench) onStart(_ context.Context, pod *corev1.Pod) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	id, _ := b.runtime.Listed(string(pod.UID))
	b.startedIn = append(b.startedIn, id)
	return nil
}

func (b *bench) passesProbes(*corev1.Pod) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return !b.unready
}

// probe has the programs' probes fail, or pass again.
func (b *bench) probe(passes bool) {
	b.mutex.Lock()
	b.unready = !passes
	b.mutex.Unlock()
	b.kubelet.Poke("uid-1")
	b.wait()
}

// die ends a sandbox behind the kubelet's back.
func (b *bench) die(id string) {
	b.runtime.Stop(id)
	b.kubelet.Poke("uid-1")
	b.wait()
}

func (b *bench) networkReady() error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.noNetwork
}

func (b *bench) setNetwork(err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.noNetwork = err
}

// wait lets the kubelet do what it can do now.
func (b *bench) wait() { synctest.Wait() }

// pass lets time pass.
func (b *bench) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// did returns the journal since the last call.
func (b *bench) did() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	lines := b.journal
	b.journal = nil
	return lines
}

func (b *bench) create(change func(*corev1.Pod)) {
	b.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-0", UID: "uid-1", Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			NodeName: "node-a", RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)),
			Containers: []corev1.Container{{Name: "main", Image: "app"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if change != nil {
		change(pod)
	}
	if _, err := b.client.CoreV1().Pods("ns").Create(b.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.wait()
}

func (b *bench) pod() *corev1.Pod {
	b.t.Helper()
	pod, err := b.client.CoreV1().Pods("ns").Get(b.t.Context(), "web-0", metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return pod
}

// change is a write of another client.
func (b *bench) change(f func(*corev1.Pod)) {
	b.t.Helper()
	pod := b.pod()
	f(pod)
	if err := b.client.Tracker().Update(podResource, pod, "ns"); err != nil {
		b.t.Fatal(err)
	}
	b.wait()
}

// deleting is what the API server makes of a DELETE with this grace period.
func deleting(grace int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second)}
		pod.DeletionGracePeriodSeconds = &grace
		pod.Finalizers = []string{"test.holdfast.dev/hold"}
	}
}

// vanish removes the object, as a force deletion does.
func (b *bench) vanish() {
	b.t.Helper()
	if err := b.client.Tracker().Delete(podResource, "ns", "web-0"); err != nil {
		b.t.Fatal(err)
	}
	b.wait()
}

func (b *bench) fail(add, del string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.addErr, b.delErr = nil, nil
	if add != "" {
		b.addErr = errors.New(add)
	}
	if del != "" {
		b.delErr = errors.New(del)
	}
}

func (b *bench) alive() int {
	return len(slices.DeleteFunc(b.runtime.List(), func(s api.Sandbox) bool { return !s.Alive }))
}

func joined(lines []string) string { return strings.Join(lines, ", ") }
