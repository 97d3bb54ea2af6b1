// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
	"github.com/holdfast-dev/holdfast/internal/testing/scheduler"
)

// World is one history in progress. Make it inside the bubble.
type World struct {
	plan   Plan
	server *apiserver.Server
	sched  *scheduler.Scheduler
	log    logr.Logger
	rows   *rowCounter
	began  time.Time
	ctx    context.Context //nolint:containedctx // the history is a scope of its own
	cancel context.CancelFunc
	admin  client.Client
	actors sync.WaitGroup

	typedMu sync.Mutex
	typed   map[types.UID]client.Object

	mu       sync.Mutex
	free     bool // every call passes at once
	holds    map[string]int
	injected []*injection
	crash    *crash
	// behind are those that wait for the next change of a resource.
	behind map[string][]chan struct{}
	// lateUntil is until when the watches of a resource are late for that.
	lateUntil map[string]time.Duration
	notify    map[string]chan struct{} // by pod or node: something changed
	machines  []*machine
	managers  []*manager
	agents    []*agentProcess
	serial    int
	// mute: no network-status is written.
	mute   bool
	faults map[Kind]int
	found  []Violation
	trace  []string
	usage  usage
	// completed are the pods whose containers terminated by themselves.
	completed map[types.UID]bool
	// excused are the pods that are exempt from the checks, and why.
	excused map[types.UID]string
	// vanished are the pods that vanished although their sandboxes may run, with their names.
	vanished map[types.UID]string
	// byHand is how many addresses the operator released.
	byHand     int
	oldestList uint64
}

// Violation is what a checker found.
type Violation struct {
	At         time.Duration
	Check, Why string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s at %s: %s", v.Check, v.At.Round(time.Millisecond), v.Why)
}

func newWorld(plan Plan, log logr.LogSink, replay []string) *World {
	w := &World{plan: plan, mute: plan.Unowned, began: time.Now(), rows: &rowCounter{next: log, rows: map[string]int{}}, holds: map[string]int{},
		notify: map[string]chan struct{}{}, behind: map[string][]chan struct{}{}, lateUntil: map[string]time.Duration{}, faults: map[Kind]int{}, free: true, typed: map[types.UID]client.Object{}, completed: map[types.UID]bool{}, excused: map[types.UID]string{}, vanished: map[types.UID]string{}, usage: newUsage()}
	w.log = logr.New(w.rows)
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.sched = scheduler.New(scheduler.Options{Seed: plan.Seed, Held: w.isHeld, Replay: replay})
	w.server = apiserver.New(apiserver.Options{Gate: w, HoldEvents: true, OnChange: w.changed, Webhook: w.webhook, State: installed}, kindsOf()...)
	w.sched.Serve(w.server)
	w.admin = w.client("admin", nil)
	return w
}

func (w *World) since() time.Duration { return time.Since(w.began) }

// note adds a line to the story of the history.
func (w *World) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, fmt.Sprintf("%9s  ", w.since().Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// rand is a source of its own for an actor, so that one actor's draws are not another's.
func (w *World) rand(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(w.plan.Seed, h.Sum64()))
}

// restConfig is the client configuration of a named client.
func (w *World) restConfig(name string, who user.Info) (*rest.Config, *apiserver.Client) {
	transport := w.server.Client(apiserver.Identity{Client: name, User: who})
	return &rest.Config{Host: "http://memory", Transport: withoutEvents{transport}, QPS: -1, UserAgent: name,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON}}, transport
}

func (w *World) client(name string, who user.Info) client.Client {
	config, _ := w.restConfig(name, who)
	return must(client.New(config, client.Options{Scheme: scheme(), Mapper: w.server.Mapper()}))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// account is the user of a ServiceAccount; extra is that of a token bound to a pod on a node.
func account(namespace, name string, pod, uid, node, nodeUID string) user.Info {
	info := &user.DefaultInfo{Name: "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, user.AllAuthenticated}}
	if pod != "" {
		info.Extra = map[string][]string{"authentication.kubernetes.io/pod-name": {pod}, "authentication.kubernetes.io/pod-uid": {uid}}
	}
	if node != "" {
		info.Extra["authentication.kubernetes.io/node-name"] = []string{node}
		info.Extra["authentication.kubernetes.io/node-uid"] = []string{nodeUID}
	}
	return info
}

// act runs an actor until the history ends.
func (w *World) act(f func()) {
	w.actors.Add(1)
	go func() {
		defer w.actors.Done()
		f()
	}()
}

// turn waits until the scheduler lets an actor act; false at the end of the history.
func (w *World) turn(ctx context.Context, format string, args ...any) bool {
	return w.sched.Turn(ctx, "world "+fmt.Sprintf(format, args...)) == nil && ctx.Err() == nil
}

// rest lets time pass; false if the context ended.
func rested(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// changes is a channel that gets something after changes of a key.
func (w *World) changes(key string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notify[key] == nil {
		w.notify[key] = make(chan struct{}, 1)
	}
	return w.notify[key]
}

func (w *World) poke(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pokeLocked(key)
}

func (w *World) pokeLocked(key string) {
	if c := w.notify[key]; c != nil {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// changed sees every change of a stored object.
func (w *World) changed(c apiserver.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := c.New
	if last == nil {
		last = c.Old
	}
	metadata, _ := last["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	name, _ := metadata["name"].(string)
	for _, waits := range w.behind[c.Kind.Plural] {
		close(waits)
	}
	delete(w.behind, c.Kind.Plural)
	w.lagLocked(c.Kind.Plural, namespace+"/"+name)
	switch c.Kind.Plural {
	case "pods":
		w.pokeLocked("pod " + namespace + "/" + name)
		if spec, ok := last["spec"].(map[string]any); ok {
			node, _ := spec["nodeName"].(string)
			w.pokeLocked("node " + node)
		}
		w.checkUnprotect(c)
	case "ippools":
		w.usage.poolChanged(w, c)
	}
	if w.crash != nil && strings.HasPrefix(c.Client, "manager") && w.crash.counts(c) {
		w.crash.wrote(w, c.Client)
	}
}

// pods are the pods as the server has them, by namespace/name. They may not be written to.
func (w *World) pods() map[string]*corev1.Pod {
	all := map[string]*corev1.Pod{}
	for name, o := range w.server.All("pods") {
		if pod := typed[corev1.Pod](w, o); pod != nil {
			all[name] = pod
		}
	}
	return all
}

// typed is a stored object as its type, which may not be written to; each version is converted once.
func typed[T any, P interface {
	*T
	client.Object
}](w *World, o *unstructured.Unstructured) P {
	w.typedMu.Lock()
	defer w.typedMu.Unlock()
	if known := w.typed[o.GetUID()]; known != nil && known.GetResourceVersion() == o.GetResourceVersion() {
		return known.(P)
	}
	object := P(new(T))
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, object); err != nil {
		return nil
	}
	w.typed[o.GetUID()] = object
	return object
}

// pod is a pod by name and, unless it is empty, UID; nil if there is none.
func (w *World) pod(namespace, name string, uid types.UID) *corev1.Pod {
	o := w.server.Find("pods", namespace, name)
	if o == nil {
		return nil
	}
	pod := typed[corev1.Pod](w, o)
	if pod == nil || (uid != "" && pod.UID != uid) {
		return nil
	}
	return pod.DeepCopy()
}
