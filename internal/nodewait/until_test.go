// SPDX-License-Identifier: Apache-2.0

package nodewait

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/served"
)

// Every test here runs in a bubble of testing/synctest: its clock stands still while anything works.

func requireObstacle(t *testing.T, err error, want string) {
	t.Helper()
	var o *obstacle
	if !errors.As(err, &o) || !strings.Contains(o.what, want) {
		t.Errorf("got %v, want to wait for: %s", err, want)
	}
}

// lines are what was written to standard error.
func (w *world) lines() []string {
	return strings.Split(strings.TrimSuffix(w.errOut.String(), "\n"), "\n")
}

func (w *world) requireLines(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.lines()); diff != "" {
		w.t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// requireStates compares the lines without their times and without reminders.
func (w *world) requireStates(want ...string) {
	w.t.Helper()
	var got []string
	for _, line := range w.lines() {
		if _, rest, timed := strings.Cut(line, ": "); timed && strings.HasPrefix(line, "waiting ") {
			line, _, _ = strings.Cut(rest, "; time-out in ")
		}
		got = append(got, line)
	}
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		w.t.Errorf("states (-want +got):\n%s", diff)
	}
}

// deaf takes the watches away.
func (w *world) deaf() {
	w.client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, nil, errors.New("no watch today")
	})
}

const (
	configName = "NodeNetworkConfig kube-system/aks-0"
	stale      = `NodeNetworkConfig kube-system/aks-0 speaks for Node "aks-0", but carries UID "1111"; expected the live Node's UID only; the live Node has UID "2222". Delete the object, or let its owner write that UID into its owner reference to v1 Node "aks-0"`
	staleHeld  = configName + ` speaks for Node "aks-0", but carries UID "1111"; expected the live Node's UID only; the live Node has UID "2222". ` +
		`Delete the object (its finalizers "` + dncFinalizer + `" hold it), or let its owner write that UID into its owner reference to v1 Node "aks-0"; it is being deleted; held by finalizers ` + dncFinalizer
)

func TestTheTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, liveNode(newUID), config(ownedBy(host, oldUID), deleting(dncFinalizer)))
		err := Until(t.Context(), w.options(func(o *Options) { o.Timeout = 30 * time.Second }))
		var timeout *TimeoutError
		if !errors.As(err, &timeout) {
			t.Fatalf("got %v", err)
		}
		want := "gave up after 30s: " + staleHeld + "\nLook at the controllers that these finalizers belong to: they have to remove them before a new object can be created."
		if timeout.Error() != want {
			t.Errorf("got %q, want %q", timeout, want)
		}
		w.requireLines("waiting 0s: " + staleHeld + "; time-out in 30s")
		if w.out.Len() > 0 {
			t.Errorf("standard output has %q", w.out.String())
		}
	})
}

func TestAReminderEachMinuteAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, liveNode(newUID), config(ownedBy(host, oldUID)))
		var timeout *TimeoutError
		if err := Until(t.Context(), w.options(nil)); !errors.As(err, &timeout) {
			t.Fatalf("got %v", err)
		}
		if n := len(w.lines()); n < 8 || n > 10 {
			t.Errorf("%d lines in ten minutes, want a first one and 7 to 9 reminders:\n%s", n, w.errOut.String())
		}
	})
}

func TestWithoutATimeOutItWaitsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, liveNode(newUID), config(ownedBy(host, oldUID)))
		w.deaf()
		time.AfterFunc(100*time.Hour, func() { w.put(config(ownedBy(host, newUID))) })
		if err := Until(t.Context(), w.options(func(o *Options) { o.Timeout = 0 })); err != nil {
			t.Fatal(err)
		}
		if first := w.lines()[0]; first != "waiting 0s: "+stale {
			t.Errorf("got %q", first)
		}
		if !strings.HasPrefix(w.out.String(), "ready after 100h0m") {
			t.Errorf("got %q", w.out.String())
		}
	})
}

func TestASignalEndsItQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, liveNode(newUID), config(ownedBy(host, oldUID)))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Second, cancel)
		if err := Until(ctx, w.options(nil)); !errors.Is(err, ErrStopped) {
			t.Fatalf("got %v", err)
		}
		w.requireStates(stale)
	})
}

// TestI4ANodeReplacedUnderItsName is S2 from the agent's side.
func TestI4ANodeReplacedUnderItsName(t *testing.T) {
	for _, watched := range []bool{true, false} {
		t.Run(fmt.Sprintf("watched %t", watched), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { replaceNode(t, watched) })
		})
	}
}

func replaceNode(t *testing.T, watched bool) {
	w := newWorld(t, config(ownedBy(host, oldUID)))
	if !watched {
		w.deaf()
	}
	steps := []func(){
		func() { w.put(liveNode(newUID)) },
		func() { w.put(config(ownedBy(host, oldUID), deleting(dncFinalizer))) },
		func() { w.remove(config()) },
		func() { w.put(config(ownedBy(host, newUID))) },
	}
	for i, step := range steps {
		time.AfterFunc(time.Duration(i+1)*30*time.Second, step)
	}
	if err := Until(t.Context(), w.options(nil)); err != nil {
		t.Fatal(err)
	}
	w.requireStates("there is no Node aks-0", stale, staleHeld,
		"there is no NodeNetworkConfig kube-system/aks-0")
	slowest := 136 * time.Second // the last step, and a look at the latest 15 s later
	if watched {
		slowest = 123 * time.Second
	}
	after, line, _ := strings.Cut(strings.TrimPrefix(w.out.String(), "ready after "), ": ")
	if took, err := time.ParseDuration(after); err != nil || took > slowest {
		t.Errorf("ready after %q (%v), want at most %s", after, err, slowest)
	}
	if line != configName+` speaks for Node "aks-0" and carries UID "2222"; the live Node has UID "2222"`+"\n" {
		t.Errorf("got %q", line)
	}
}

func TestI5AFailedReadIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		object, node := w.fault("get", configs.Resource), w.fault("get", nodes.Resource)
		object.set(apierrors.NewForbidden(configs.GroupResource(), host, errors.New(`User "cns" cannot get resource`)))
		at := func(seconds int, step func()) { time.AfterFunc(time.Duration(seconds)*time.Second, step) }
		at(20, func() { node.set(broken(40001)); object.set(nil) })
		at(40, func() { node.set(broken(40002)) })
		at(60, func() { node.set(context.DeadlineExceeded) })
		at(80, func() { node.set(apierrors.NewUnauthorized("who are you")) })
		at(100, func() { object.set(notServedError()); node.set(nil) })
		at(120, func() { w.put(liveNode(newUID)); object.set(nil) })
		if err := Until(t.Context(), w.options(func(o *Options) { o.IfMissing = Proceed })); err != nil {
			t.Fatal(err)
		}
		w.requireStates(
			`this account may not get nodenetworkconfigs.acn.azure.com "aks-0" in namespace kube-system: `+
				`nodenetworkconfigs.acn.azure.com "aks-0" is forbidden: User "cns" cannot get resource`,
			`could not get nodes "aks-0": read 192.0.2.1:6443: connection reset by peer`,
			`could not get nodes "aks-0": the API server did not respond within 10s`,
			`could not get nodes "aks-0": who are you`,
			`the API server serves no nodenetworkconfigs.acn.azure.com in version v1alpha`,
		)
	})
}

// broken is a connection that broke; the port on our side is another one each time.
func broken(port int) error {
	return fmt.Errorf("reading a response: %w", &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET,
		Source: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: port}, Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 6443}})
}

// notServedError is what client-go makes of "404 page not found".
func notServedError() error {
	return apierrors.NewGenericServerResponse(404, "GET", configs.GroupResource(), host, "404 page not found", 0, true)
}

func TestI5AHungAPIServerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, liveNode(newUID), config(ownedBy(host, newUID)))
		slow := &slowDiscovery{API: w.groups}
		slow.hang.Store(true)
		time.AfterFunc(time.Minute, func() { slow.hang.Store(false) })
		if err := Until(t.Context(), w.options(func(o *Options) { o.Discovery = slow })); err != nil {
			t.Fatal(err)
		}
		w.requireStates("discovering nodenetworkconfigs.acn.azure.com: the API server did not respond within 10s")
	})
}

func TestATimeOutDuringTheFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		slow := &slowDiscovery{API: w.groups}
		slow.hang.Store(true)
		err := Until(t.Context(), w.options(func(o *Options) { o.Discovery, o.Timeout = slow, 5*time.Second }))
		if err == nil || err.Error() != "gave up after 5s: the API server has not responded once" {
			t.Errorf("got %v", err)
		}
	})
}

type slowDiscovery struct {
	served.API
	hang atomic.Bool
}

func (d *slowDiscovery) Resources(ctx context.Context, version schema.GroupVersion) (*metav1.APIResourceList, error) {
	if d.hang.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return d.API.Resources(ctx, version)
}

func TestAResourceThatMovesToAnotherVersionIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, liveNode(newUID), config(ownedBy(host, oldUID)))
		gone := w.fault("get", configs.Resource)
		time.AfterFunc(30*time.Second, func() {
			gone.set(notServedError())
			w.groups.serve("acn.azure.com/v1alpha")
		})
		time.AfterFunc(time.Minute, func() {
			gone.set(nil)
			w.groups.serve("acn.azure.com/v1", metav1.APIResource{Name: configs.Resource, Kind: kinds[configs], Namespaced: true})
			moved := object(configs.GroupResource().WithVersion("v1"), kinds[configs], "kube-system", host, ownedBy(host, newUID))
			if err := w.client.Tracker().Create(configs.GroupResource().WithVersion("v1"), moved, "kube-system"); err != nil {
				panic(err)
			}
		})
		if err := Until(t.Context(), w.options(func(o *Options) { o.Resource.Version = "" })); err != nil {
			t.Fatal(err)
		}
		w.requireStates(stale, "the API server serves no nodenetworkconfigs.acn.azure.com in version v1alpha",
			"the API server serves no nodenetworkconfigs.acn.azure.com")
	})
}

func TestAPolicyIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy(configs, nil)
		p.SetGeneration(1)
		w := newWorld(t, p, liveNode(newUID), config())
		time.AfterFunc(30*time.Second, func() {
			p := policy(configs, func(s *v1alpha1.NodeResourcePolicySpec) { s.NodeUID.Presence = v1alpha1.UIDIfPresent })
			p.SetGeneration(2)
			w.put(p)
		})
		if err := Until(t.Context(), w.options(func(o *Options) { o.Policy = "p" })); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(w.out.String(), "carries no UID of a Node; the live Node has UID \"2222\", and NodeResourcePolicy p accepts that") {
			t.Errorf("got %q", w.out.String())
		}
	})
}

// TestAnotherResourceIsWatchedInstead: a policy is corrected while it is waited for.
func TestAnotherResourceIsWatchedInstead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy(configs, nil)
		p.SetGeneration(1)
		subnet := func(uid types.UID) *unstructured.Unstructured {
			return object(subnets, kinds[subnets], "", host, ownedBy(host, uid))
		}
		w := newWorld(t, p, liveNode(newUID), subnet(oldUID))
		at := func(seconds int, step func()) { time.AfterFunc(time.Duration(seconds)*time.Second, step) }
		at(30, func() {
			p := policy(subnets, nil)
			p.SetGeneration(2)
			w.put(p)
		})
		for second := 50; second < 300; second++ { // events of the old watch
			at(second, func() { w.put(config(annotated("at", time.Now().String()))) })
		}
		at(300, func() { w.put(subnet(newUID)) })
		if err := Until(t.Context(), w.options(func(o *Options) { o.Policy, o.Namespace = "p", "" })); err != nil {
			t.Fatal(err)
		}
		w.requireStates("there is no NodeNetworkConfig aks-0", `HostSubnet aks-0`+strings.TrimPrefix(stale, configName))
		if got := w.out.String(); !strings.HasPrefix(got, "ready after 5m0") && !strings.HasPrefix(got, "ready after 5m1s") {
			t.Errorf("got %q, want it soon after 5m0s", got)
		}
	})
}

func TestI5AListThatFailsIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		byField := policy(affinities, func(s *v1alpha1.NodeResourcePolicySpec) {
			s.NodeName.FieldPath, s.Resource.Versions = "spec.node", []string{"v1"}
		})
		w := newWorld(t, liveNode(newUID), object(affinities, kinds[affinities], "", "a", field(host, "spec", "node"), ownedBy(host, newUID)))
		p, list := w.fault("get", policies.Resource), w.fault("list", affinities.Resource)
		p.set(apierrors.NewForbidden(policies.GroupResource(), "p", errors.New("no")))
		list.set(apierrors.NewForbidden(affinities.GroupResource(), "", errors.New("no")))
		time.AfterFunc(20*time.Second, func() { w.put(byField); p.set(nil) })
		time.AfterFunc(50*time.Second, func() { list.set(nil) })
		if err := Until(t.Context(), w.options(func(o *Options) { o.Policy, o.Namespace, o.IfMissing = "p", "", Proceed })); err != nil {
			t.Fatal(err)
		}
		w.requireStates(`this account may not get noderesourcepolicies.holdfast.dev "p": noderesourcepolicies.holdfast.dev "p" is forbidden: no`,
			`this account may not list blockaffinities.crd.projectcalico.org: blockaffinities.crd.projectcalico.org is forbidden: no`)
		if got := w.out.String(); !strings.Contains(got, `BlockAffinity a speaks for Node "aks-0" and carries UID "2222"`) {
			t.Errorf("got %q", got)
		}
	})
}

func TestAWatchThatIsNotAllowedIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, liveNode(newUID), config(ownedBy(host, oldUID)))
		w.client.PrependWatchReactor(configs.Resource, func(clienttesting.Action) (bool, watch.Interface, error) {
			return true, nil, apierrors.NewForbidden(configs.GroupResource(), "", errors.New("no"))
		})
		time.AfterFunc(50*time.Second, func() { w.put(config(ownedBy(host, newUID))) })
		if err := Until(t.Context(), w.options(nil)); err != nil {
			t.Fatal(err)
		}
		w.requireStates(stale, `note: this account may not watch nodenetworkconfigs.acn.azure.com "aks-0" in namespace kube-system: `+
			`nodenetworkconfigs.acn.azure.com is forbidden: no; looking again every few seconds instead`)
	})
}

// TestWatchesAskTheServerForOneNodeOnly: thousands of nodes wait at once.
func TestWatchesAskTheServerForOneNodeOnly(t *testing.T) {
	byField := policy(affinities, func(s *v1alpha1.NodeResourcePolicySpec) {
		s.NodeName.FieldPath, s.Resource.Versions = "spec.node", []string{"v1"}
	})
	other := object(affinities, kinds[affinities], "", "x", field("aks-1", "spec", "node"))
	byPolicy := func(o *Options) { o.Policy, o.Namespace = "p", "" }
	cases := map[string]struct {
		world      things
		options    func(*Options)
		selectable bool
		want       map[string]string
		wantList   string
	}{
		"by name": {
			want: map[string]string{"nodes": "metadata.name=aks-0@", configs.Resource: "metadata.name=aks-0@"},
		},
		"by a field that the API server selects by": {
			world: things{byField, other}, options: byPolicy, selectable: true, wantList: "spec.node=aks-0",
			want: map[string]string{"nodes": "metadata.name=aks-0@", affinities.Resource: "spec.node=aks-0@"},
		},
		"by a field that it does not select by: only what comes after the list": {
			world: things{byField, other}, options: byPolicy,
			want: map[string]string{"nodes": "metadata.name=aks-0@", affinities.Resource: "@42"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, append(tc.world, liveNode(newUID))...)
				lists := w.strictLists(tc.selectable)
				got := map[string]string{}
				w.client.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
					restrictions := a.(clienttesting.WatchAction).GetWatchRestrictions()
					got[a.GetResource().Resource] = restrictions.Fields.String() + "@" + restrictions.ResourceVersion
					return false, nil, nil
				})
				_ = Until(t.Context(), w.options(func(o *Options) {
					o.Timeout = 5 * time.Second
					if tc.options != nil {
						tc.options(o)
					}
				}))
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("watches (-want +got):\n%s", diff)
				}
				if last := lists(); last != tc.wantList {
					t.Errorf("the last list selected by %q, want %q", last, tc.wantList)
				}
			})
		})
	}
}

// strictLists refuses selectors as the API server does, gives lists the version 42, and the selector of the last one.
func (w *world) strictLists(selectable bool) func() string {
	var last string
	w.client.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		last = a.(clienttesting.ListAction).GetListRestrictions().Fields.String()
		if last != "" && !selectable {
			return true, nil, apierrors.NewBadRequest("field label not supported: spec.node")
		}
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(affinities.GroupVersion().String())
		list.SetKind(kinds[affinities] + "List")
		list.SetResourceVersion("42")
		return true, list, nil
	})
	return func() string { return last }
}

func TestOnlyEventsOfTheNodeCauseAScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		byField := policy(affinities, func(s *v1alpha1.NodeResourcePolicySpec) {
			s.NodeName.FieldPath, s.Resource.Versions = "spec.node", []string{"v1"}
		})
		w := newWorld(t, byField, liveNode(newUID))
		var lists atomic.Int32
		w.client.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if !a.(clienttesting.ListAction).GetListRestrictions().Fields.Empty() {
				return true, nil, apierrors.NewBadRequest("field label not supported: spec.node")
			}
			lists.Add(1)
			return false, nil, nil
		})
		affinity := func(name, node string) *unstructured.Unstructured {
			return object(affinities, kinds[affinities], "", name, field(node, "spec", "node"), ownedBy(node, newUID))
		}
		var before atomic.Int32
		time.AfterFunc(10*time.Second, func() { before.Store(lists.Load()) })
		for i := range 20 {
			time.AfterFunc(time.Duration(11+i)*time.Second, func() { w.put(affinity(fmt.Sprint("other-", i), "aks-1")) })
		}
		time.AfterFunc(40*time.Second, func() {
			if scans := lists.Load() - before.Load(); scans != 0 {
				t.Errorf("%d scans for objects of another node", scans)
			}
			w.put(affinity("own", host))
		})
		if err := Until(t.Context(), w.options(func(o *Options) { o.Policy, o.Namespace = "p", "" })); err != nil {
			t.Fatal(err)
		}
		if got := w.out.String(); !strings.HasPrefix(got, "ready after 4") {
			t.Errorf("got %q, want it soon after 40s", got)
		}
	})
}

// TestEventsDoNotMakeItPoll: a Node that is written all the time is looked at once a second at most.
func TestEventsDoNotMakeItPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, liveNode(newUID), config(ownedBy(host, oldUID)))
		var looks atomic.Int32
		w.client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			looks.Add(1)
			return false, nil, nil
		})
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = Until(t.Context(), w.options(func(o *Options) { o.Timeout = time.Minute }))
		}()
		for {
			select {
			case <-done:
				if n := looks.Load(); n < 30 || n > 61 {
					t.Errorf("%d looks in a minute, want 30 to 61", n)
				}
				return
			case <-ticker.C:
				w.put(liveNode(newUID, annotated("at", time.Now().String())))
			}
		}
	})
}

// TestABrokenWatchIsOpenedAgainSlowly: an API server that ends each watch at once gets one request for each look.
func TestABrokenWatchIsOpenedAgainSlowly(t *testing.T) {
	endings := map[string]func() (watch.Interface, error){
		"refused": func() (watch.Interface, error) { return nil, errors.New("too many requests") },
		"ended": func() (watch.Interface, error) {
			stream := watch.NewFake()
			stream.Stop()
			return stream, nil
		},
		"expired": func() (watch.Interface, error) {
			stream := watch.NewFakeWithChanSize(1, false)
			stream.Error(&metav1.Status{Code: 410})
			return stream, nil
		},
	}
	for name, ending := range endings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, liveNode(newUID), config(ownedBy(host, oldUID)))
				var opened atomic.Int32
				w.client.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) {
					opened.Add(1)
					stream, err := ending()
					return true, stream, err
				})
				_ = Until(t.Context(), w.options(nil))
				if n := opened.Load(); n < 8 || n > 60 {
					t.Errorf("opened %d times in ten minutes, want 8 to 60", n)
				}
			})
		})
	}
}
