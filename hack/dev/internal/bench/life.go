// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

const (
	guarded   = "guarded pods"
	unguarded = "bare pods"
	idle      = "nothing"

	etcdBytes = "etcdBytes"
	// agentWrites are those of the one agent for an operation, and agentWatches what it has open.
	agentWrites  = "writes of the agent"
	agentWatches = "watches of the agent"
	// idleTime is long enough to see what the manager calls when nothing happens.
	idleTime = 5 * time.Second
	// startTime is that in which a manager begins its first audit.
	startTime = 3 * idleTime
)

// life is that of ordinary pods: created, bound by the scheduler, run by a simulated kubelet whose CNI calls whereabouts' own allocator, deleted.
// Bare pods have the same life on the same network with the guard off, and no webhook judges the removal of their entries.
var life = experiment{
	repeats: 10,
	needs:   needs{auditLog: true, reports: true},
	rows: []row{
		callsRow("pod-writes", "writes for an ordinary guarded pod, those of the webhooks included", writes, 3,
			"The record is created and deleted, and the finalizer taken off."),
		callsRow("pod-reads", "live reads for an ordinary guarded pod, those of the webhooks included", reads, 4,
			"The webhooks judge the removal of the pool's entry and of the reservation, each on live reads of its own; the table below names them."),
		callsRow("pod-lists", "lists for an ordinary guarded pod", lists, 0,
			"The webhook that judges the removal of a reservation lists the metadata of the pools where any of them may still have the address, and so does a pass with live reads, after a cache that was behind."),
		{
			Row: page.Row{Name: "pod-etcd", Title: "bytes written to etcd for an ordinary guarded pod", Against: "bare pod", Unit: "KB",
				Target: result.Target{Op: result.AtMost, Value: 8}, Limit: "The finalizer and the label are in each revision of the pod, and the record in its own two."},
			figure: func(turns map[string]result.Turn) float64 {
				return (turns[guarded].Values[etcdBytes] - turns[unguarded].Values[etcdBytes]) / 1000
			},
		},
		{
			Row: page.Row{Name: "pod-cpu", Title: "processor time of the API server for the life of a guarded pod", Against: "bare pod", Unit: ratio,
				Target: result.Target{Op: result.AtMost, Value: 1.4}, Limit: "Each call of the table above is paid by the API server."},
			figure: func(turns map[string]result.Turn) float64 {
				return turns[guarded].CPUSeconds["kube-apiserver"] / turns[unguarded].CPUSeconds["kube-apiserver"]
			},
		},
		{
			Row: page.Row{Name: "agent-idle", Title: "writes in an hour of an agent that has no query, while bare pods come and go on its node, and while nothing does", Unit: "calls",
				Target: result.Target{Op: result.AtMost, Value: 0}, Limit: "An agent writes though nothing was queried."},
			figure: func(turns map[string]result.Turn) float64 {
				bare, nothing := turns[unguarded], turns[idle]
				written := bare.Values[agentWrites]*float64(bare.Operations) + nothing.Values[agentWrites]
				return written / (bare.WallSeconds + nothing.WallSeconds) * time.Hour.Seconds()
			},
		},
	},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		clientset, judged, err := w.lives(ctx)
		if err != nil {
			return nil, err
		}
		n := w.size(20, 10)
		lives := func(name string, newPod func(suffix string) *corev1.Pod) arm {
			return arm{name: name, run: func(ctx context.Context) (int, map[string]float64, error) {
				values, err := w.countLife(ctx, func(ctx context.Context) error { return liveAndDie(ctx, clientset, n, newPod) }, n)
				return n, values, err
			}}
		}
		nothing := arm{name: idle, run: func(ctx context.Context) (int, map[string]float64, error) {
			values, err := w.countLife(ctx, func(ctx context.Context) error { return pass(ctx, idleTime) }, 1)
			return 1, values, err
		}}
		ours, theirs := lives(guarded, running), lives(unguarded, optedOut)
		ours.before, theirs.before = judged.restore, judged.remove
		return []arm{ours, theirs, nothing}, nil
	},
}

// releaseWebhook is the configuration of the webhook that judges removals: the API server calls it for entries of bare pods, too.
type releaseWebhook struct {
	client  client.Client
	saved   *admissionregistrationv1.ValidatingWebhookConfiguration
	removed bool
}

func (w *world) releaseWebhook(ctx context.Context) (*releaseWebhook, error) {
	r := &releaseWebhook{client: w.seed, saved: &admissionregistrationv1.ValidatingWebhookConfiguration{}}
	err := w.seed.Get(ctx, client.ObjectKey{Name: "holdfast-release"}, r.saved)
	r.saved.ResourceVersion, r.saved.UID = "", ""
	return r, err
}

func (r *releaseWebhook) remove(ctx context.Context) error {
	if r.removed {
		return nil
	}
	r.removed = true
	return r.client.Delete(ctx, r.saved.DeepCopy())
}

// restore need not wait until the API server knows the webhook: the pods of the turn live for seconds first.
func (r *releaseWebhook) restore(ctx context.Context) error {
	if !r.removed {
		return nil
	}
	r.removed = false
	return r.client.Create(ctx, r.saved.DeepCopy())
}

// callsRow counts calls for a pod, without those that the manager makes when nothing happens.
func callsRow(name, title, value string, target float64, limit string) row {
	return row{
		Row: page.Row{Name: name, Title: title, Unit: "calls", Target: result.Target{Op: result.AtMost, Value: target}, Limit: limit},
		figure: func(turns map[string]result.Turn) float64 {
			background := turns[idle].Values[value] / turns[idle].WallSeconds * turns[guarded].WallSeconds / float64(turns[guarded].Operations)
			return turns[guarded].Values[value] - background
		},
	}
}

// running is a pod that the scheduler binds and that terminates as soon as it is deleted.
func running(suffix string) *corev1.Pod {
	p := onNetwork(oursNamespace, "p-"+suffix)
	p.Spec.SchedulerName = ""
	p.Spec.TerminationGracePeriodSeconds = new(int64(1))
	return p
}

func optedOut(suffix string) *corev1.Pod {
	p := running(suffix)
	p.Annotations[v1alpha1.GuardAnnotation] = v1alpha1.GuardAnnotationOff
	return p
}

// liveAndDie creates pods, waits until all run, deletes them, and waits until they are gone.
func liveAndDie(ctx context.Context, clientset kubernetes.Interface, n int, newPod func(suffix string) *corev1.Pod) error {
	die, err := live(ctx, clientset, n, newPod)
	if err != nil {
		return err
	}
	return die(ctx)
}

// live creates pods and waits until all run; die deletes them, and waits until they are gone. It learns that by one watch: a client that asks again and
// again would be a part of what is measured.
func live(ctx context.Context, clientset kubernetes.Interface, n int, newPod func(suffix string) *corev1.Pod) (die func(context.Context) error, err error) {
	pods := clientset.CoreV1().Pods(newPod("").Namespace)
	events, err := watchPods(ctx, pods)
	if err != nil {
		return nil, err
	}
	run := map[string]bool{}
	mine := func(name string) bool { return strings.HasPrefix(name, newPod("").Name) }
	create := func(ctx context.Context, i int) error {
		_, err := pods.Create(ctx, newPod(strconv.Itoa(i)), metav1.CreateOptions{})
		return err
	}
	err = followWhile(ctx, events, n, create, func(_ watch.EventType, p *corev1.Pod) bool {
		if p.Status.Phase == corev1.PodRunning && mine(p.Name) {
			run[p.Name] = true
		}
		return len(run) == n
	})
	if err != nil {
		events.Stop()
		return nil, fmt.Errorf("waiting for %d pods to run, %d do: %w", n, len(run), err)
	}
	return func(ctx context.Context) error {
		defer events.Stop()
		remove := func(ctx context.Context, i int) error {
			return pods.Delete(ctx, newPod(strconv.Itoa(i)).Name, metav1.DeleteOptions{})
		}
		err := followWhile(ctx, events, n, remove, func(event watch.EventType, p *corev1.Pod) bool {
			if event == watch.Deleted {
				delete(run, p.Name)
			}
			return len(run) == 0
		})
		if err != nil {
			return fmt.Errorf("waiting for %d pods to be gone, %d are not: %w", n, len(run), err)
		}
		return nil
	}, nil
}

// watchPods has what happens from now on. It resumes where the API server ends it, which it does with a watch that is not read for a tenth of a second.
func watchPods(ctx context.Context, pods corev1client.PodInterface) (watch.Interface, error) {
	now, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	return watchtools.NewRetryWatcherWithContext(ctx, now.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(ctx, o) },
	})
}

// followWhile hands over events until done, while the clients make n calls: the API server ends a watch that is not read.
func followWhile(ctx context.Context, events watch.Interface, n int, call func(ctx context.Context, i int) error, done func(watch.EventType, *corev1.Pod) bool) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return inParallel(ctx, clients, n, call) })
	group.Go(func() error { return follow(ctx, events, done) })
	return group.Wait()
}

// follow hands over events until done, or until settleTimeout.
func follow(ctx context.Context, events watch.Interface, done func(watch.EventType, *corev1.Pod) bool) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		select {
		case event, open := <-events.ResultChan():
			p, isPod := event.Object.(*corev1.Pod)
			if !open || !isPod {
				return fmt.Errorf("the watch of pods ended with %v", event.Object)
			}
			if done(event.Type, p) {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// countLife adds the calls and the bytes of one of n operations.
func (w *world) countLife(ctx context.Context, do func(context.Context) error, n int) (map[string]float64, error) {
	before, err := w.bytesPut(ctx)
	if err != nil {
		return nil, err
	}
	counted, err := w.countAccounts(ctx, do)
	if err != nil {
		return nil, err
	}
	after, err := w.bytesPut(ctx)
	if err != nil {
		return nil, err
	}
	log, err := os.ReadFile(w.auditLog())
	if err != nil {
		return nil, err
	}
	_, watches, err := parseAudit(log)
	values := counted[managerUser].per(n)
	maps.Copy(values, map[string]float64{etcdBytes: (after - before) / float64(n), agentWrites: counted[agentUser].writes() / float64(n), agentWatches: watches[agentUser]})
	return values, err
}

// bytesPut is the size of all keys and values that were written to etcd.
func (w *world) bytesPut(ctx context.Context) (float64, error) {
	text, err := scrape(ctx, w.cluster.ControlPlane().EtcdURL()+"/metrics")
	if err != nil {
		return 0, err
	}
	return metric(text, "etcd_debugging_mvcc_total_put_size_in_bytes", "")
}

// pass lets a time pass.
func pass(ctx context.Context, d time.Duration) error {
	return wait.PollUntilContextCancel(ctx, d, false, func(context.Context) (bool, error) { return true, nil })
}
