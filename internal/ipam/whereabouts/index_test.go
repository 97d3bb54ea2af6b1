// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

type allocations = map[string]wb.IPAllocation

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later = start.Add(time.Minute)

	ignoreOrder = cmp.Options{
		compareAddrs, cmpopts.EquateEmpty(),
		cmpopts.SortSlices(func(a, b string) bool { return a < b }),
		cmpopts.SortSlices(func(a, b ipam.PodRef) bool { return a.String() < b.String() }),
	}
)

func taken(id, podRef string) wb.IPAllocation {
	return wb.IPAllocation{ContainerID: id, PodRef: podRef, IfName: "net1"}
}

// seen is an entry of pool p (10.0.0.0/24) as a cached read shows it.
func seen(ip, id, podRef string, since time.Time, observed bool, version string) ipam.Entry {
	e := entryOf("p", ip, id, podRef, "net1")
	e.Seen, e.PoolResourceVersion = ipam.Seen{SeenSince: since, AddObserved: observed, Whole: observed}, version
	return e
}

func addresses(all ...string) (parsed []netip.Addr) {
	for _, text := range all {
		parsed = append(parsed, netip.MustParseAddr(text))
	}
	return parsed
}

// after is the entry in the place of a sandbox of the same podref.
func after(e ipam.Entry, sandbox string) ipam.Entry {
	e.Follows = sandbox
	return e
}

func TestTheIndexFollowsAPool(t *testing.T) {
	web, db := ipam.PodRef{Namespace: "ns", Name: "web-0"}, ipam.PodRef{Namespace: "ns", Name: "db-0"}
	for name, tc := range map[string]struct {
		before, after allocations
		event         ipam.Event
		entries       []ipam.Entry // of the pool after the update
	}{
		"what the first list shows has no observed ADD": {
			before:  allocations{"1": taken("a", "ns/web-0")},
			after:   allocations{"1": taken("a", "ns/web-0")},
			entries: []ipam.Entry{seen("10.0.0.1", "a", "ns/web-0", start, false, "2")},
		},
		"an entry that appears has one": {
			after:   allocations{"1": taken("a", "ns/web-0")},
			event:   ipam.Event{PodRefs: []ipam.PodRef{web}, SandboxIDs: []string{"a"}, Addresses: addresses("10.0.0.1")},
			entries: []ipam.Entry{seen("10.0.0.1", "a", "ns/web-0", later, true, "2")},
		},
		"a new sandbox under the same podref has one, and both sandboxes are in the event": {
			before:  allocations{"1": taken("a", "ns/web-0")},
			after:   allocations{"1": taken("b", "ns/web-0")},
			event:   ipam.Event{PodRefs: []ipam.PodRef{web}, SandboxIDs: []string{"a", "b"}, Addresses: addresses("10.0.0.1")},
			entries: []ipam.Entry{after(seen("10.0.0.1", "b", "ns/web-0", later, true, "2"), "a")},
		},
		"another podref for the same sandbox is seen anew, but its ADD was not observed": {
			before:  allocations{"1": taken("a", "ns/web-0")},
			after:   allocations{"1": taken("a", "ns/db-0")},
			event:   ipam.Event{PodRefs: []ipam.PodRef{web, db}, SandboxIDs: []string{"a"}, Addresses: addresses("10.0.0.1")},
			entries: []ipam.Entry{seen("10.0.0.1", "a", "ns/db-0", later, false, "2")},
		},
		"a tombstone names the record and the pod": {
			before:  allocations{"1": taken("a", "ns/web-0")},
			after:   allocations{"1": taken("a", "holdfast-releasing/r")},
			event:   ipam.Event{PodRefs: []ipam.PodRef{web}, SandboxIDs: []string{"a"}, Records: []string{"r"}, Addresses: addresses("10.0.0.1")},
			entries: []ipam.Entry{seen("10.0.0.1", "a", "holdfast-releasing/r", later, false, "2")},
		},
		"a removed tombstone names the record": {
			before: allocations{"1": taken("a", "holdfast-releasing/r")},
			event:  ipam.Event{SandboxIDs: []string{"a"}, Records: []string{"r"}, Addresses: addresses("10.0.0.1")},
		},
		"another interface is a change, not a new entry": {
			before:  allocations{"1": {ContainerID: "a", PodRef: "ns/web-0"}},
			after:   allocations{"1": taken("a", "ns/web-0")},
			event:   ipam.Event{PodRefs: []ipam.PodRef{web}, SandboxIDs: []string{"a"}, Addresses: addresses("10.0.0.1")},
			entries: []ipam.Entry{seen("10.0.0.1", "a", "ns/web-0", start, false, "2")},
		},
		"entries that stay keep their history and are not in the event": {
			before: allocations{"1": taken("a", "ns/web-0"), "2": taken("b", "ns/db-0")},
			after:  allocations{"2": taken("b", "ns/db-0"), "3": taken("c", "ns/web-0")},
			event:  ipam.Event{PodRefs: []ipam.PodRef{web}, SandboxIDs: []string{"a", "c"}, Addresses: addresses("10.0.0.1", "10.0.0.3")},
			entries: []ipam.Entry{
				seen("10.0.0.2", "b", "ns/db-0", start, false, "2"),
				seen("10.0.0.3", "c", "ns/web-0", later, true, "2"),
			},
		},
		"a removed entry is in the event": {
			before: allocations{"1": taken("a", "ns/web-0")},
			event:  ipam.Event{PodRefs: []ipam.PodRef{web}, SandboxIDs: []string{"a"}, Addresses: addresses("10.0.0.1")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newIndex()
			x.apply(newPool("p", "10.0.0.0/24", "1", tc.before), start)
			event := x.apply(newPool("p", "10.0.0.0/24", "2", tc.after), later)
			if diff := cmp.Diff(tc.event, event, ignoreOrder); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
			want := ipam.Snapshot{Entries: tc.entries, PoolVersions: map[string]string{}}
			if len(tc.entries) > 0 {
				want.PoolVersions["kube-system/p"] = "2"
			}
			if diff := cmp.Diff(want, x.all(), ignoreOrder); diff != "" {
				t.Errorf("snapshot (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnEntryThatWentAndCameIsObserved(t *testing.T) {
	x := newIndex()
	x.apply(newPool("p", "10.0.0.0/24", "1", allocations{"1": taken("a", "ns/web-0")}), start)
	x.apply(newPool("p", "10.0.0.0/24", "2", nil), start)
	x.apply(newPool("p", "10.0.0.0/24", "3", allocations{"1": taken("a", "ns/web-0")}), later)
	want := []ipam.Entry{seen("10.0.0.1", "a", "ns/web-0", later, true, "3")}
	if diff := cmp.Diff(want, x.all().Entries, compareAddrs); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// TestAnEntryIsSeenWhole: metadata.generation grows by one with each change of a pool's allocations, so that a version that was not seen shows.
func TestAnEntryIsSeenWhole(t *testing.T) {
	at := func(generation int64, version string, held allocations) *wb.IPPool {
		pool := newPool("p", "10.0.0.0/24", version, held)
		pool.Generation = generation
		return pool
	}
	a, b := allocations{"1": taken("a", "ns/web-0")}, allocations{"1": taken("b", "ns/web-0")}
	for name, tc := range map[string]struct {
		versions []*wb.IPPool
		whole    bool
		follows  string
	}{
		"one version after the other":                 {[]*wb.IPPool{at(1, "1", nil), at(2, "2", a)}, true, ""},
		"a change of the metadata between them":       {[]*wb.IPPool{at(1, "1", nil), at(1, "2", nil), at(2, "3", a)}, true, ""},
		"the first version":                           {[]*wb.IPPool{at(2, "2", a)}, false, ""},
		"a version that was not seen":                 {[]*wb.IPPool{at(1, "1", nil), at(3, "3", a)}, false, ""},
		"a version that was not seen after the entry": {[]*wb.IPPool{at(1, "1", nil), at(2, "2", a), at(4, "4", a)}, true, ""},
		"in the place of another sandbox of the pod":  {[]*wb.IPPool{at(1, "1", nil), at(2, "2", a), at(3, "3", b)}, true, "a"},
		"and the pool changes again":                  {[]*wb.IPPool{at(1, "1", nil), at(2, "2", a), at(3, "3", b), at(4, "4", b)}, true, "a"},
		"in the place of another pod":                 {[]*wb.IPPool{at(1, "1", nil), at(2, "2", a), at(3, "3", allocations{"1": taken("c", "ns/db-0")})}, true, ""},
		"after its entry went":                        {[]*wb.IPPool{at(1, "1", a), at(2, "2", nil), at(3, "3", b)}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := newIndex()
			for _, pool := range tc.versions {
				x.apply(pool, start)
			}
			entry := x.all().Entries[0]
			if entry.Whole != tc.whole || entry.Follows != tc.follows {
				t.Errorf("whole: %t, follows %q; want %t and %q", entry.Whole, entry.Follows, tc.whole, tc.follows)
			}
		})
	}
}

func TestAPoolSeenAgainInTheSameVersionIsNoChange(t *testing.T) {
	x := newIndex()
	pool := newPool("p", "10.0.0.0/24", "1", allocations{"1": taken("a", "ns/web-0"), "x": taken("b", "")})
	if isEmpty(x.apply(pool, start)) {
		t.Error("the first sight of a pool is a change")
	}
	if e := x.apply(pool.DeepCopy(), later); !isEmpty(e) {
		t.Errorf("a resync published %+v", e)
	}
}

func TestAPoolThatIsReplacedHasNoObservedAdd(t *testing.T) {
	for name, change := range map[string]func(*wb.IPPool){
		"another UID: deleted and restored while no watch ran": func(p *wb.IPPool) { p.UID = "other" },
		"another range": func(p *wb.IPPool) { p.Spec.Range = "10.0.0.0/25" },
	} {
		t.Run(name, func(t *testing.T) {
			x := newIndex()
			x.apply(newPool("p", "10.0.0.0/24", "1", allocations{"1": taken("a", "ns/web-0")}), start)
			again := newPool("p", "10.0.0.0/24", "9", allocations{"1": taken("a", "ns/web-0"), "2": taken("b", "ns/web-1")})
			change(again)
			if event := x.apply(again, later); !event.Pools {
				t.Error("an audit would not compare everything anew, though other addresses are covered now")
			}
			want := []ipam.Entry{
				seen("10.0.0.1", "a", "ns/web-0", later, false, "9"),
				seen("10.0.0.2", "b", "ns/web-1", later, false, "9"),
			}
			if diff := cmp.Diff(want, x.all().Entries, compareAddrs); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

// A pool without entries covers addresses all the same.
func TestAPoolThatComesOrGoesIsAnEvent(t *testing.T) {
	x := newIndex()
	pool := newPool("p", "10.0.0.0/24", "1", nil)
	changed := newPool("p", "10.0.0.0/24", "2", allocations{"1": taken("a", "ns/web-0")})
	for i, got := range []ipam.Event{x.apply(pool, start), x.apply(changed, later), x.remove("kube-system/p")} {
		if want := i != 1; got.Pools != want || isEmpty(got) {
			t.Errorf("event %d: %+v, want one with Pools %t", i, got, want)
		}
	}
}

func TestADeletedPoolLeavesNothing(t *testing.T) {
	x := newIndex()
	x.apply(newPool("p", "10.0.0.0/24", "1", allocations{
		"1": taken("a", "ns/web-0"), "2": taken("b", "holdfast-releasing/r"), "no": taken("c", "ns/db-0"),
	}), start)
	x.apply(newPool("broken", "?", "1", allocations{"1": taken("a", "ns/web-0")}), start)
	want := ipam.Event{
		PodRefs:    []ipam.PodRef{{Namespace: "ns", Name: "web-0"}, {Namespace: "ns", Name: "db-0"}},
		SandboxIDs: []string{"a", "b", "c"}, Records: []string{"r"}, Addresses: addresses("10.0.0.1", "10.0.0.2"), Pools: true,
	}
	if diff := cmp.Diff(want, x.remove("kube-system/p"), ignoreOrder); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	if got := x.problemCount(); got != 2 {
		t.Errorf("%d problems are left; want those of the other pool, 2", got)
	}
	x.remove("kube-system/broken")
	if e := x.remove("kube-system/p"); !isEmpty(e) {
		t.Errorf("a second deletion published %+v", e)
	}
	left := len(x.pools) + indexedIn(x) + x.problemCount()
	if got := x.all(); left != 0 || len(got.Entries)+len(got.Problems)+len(got.PoolVersions) != 0 {
		t.Errorf("left over: %d in the index, snapshot %+v", left, got)
	}
}

// indexedIn is how many locations the buckets of an index have.
func indexedIn(x *index) (n int) {
	for _, by := range []*buckets[string, location]{x.byPodRef, x.bySandbox, x.byRecord} {
		for _, bucket := range by.all {
			n += len(bucket)
		}
	}
	return n
}

func TestLookups(t *testing.T) {
	x := newIndex()
	x.apply(newPool("p", "10.0.0.0/24", "5", allocations{
		"1": taken("a", "ns/web-0"), "2": taken("a", "ns/web-0"), "3": taken("b", "ns/web-0"),
		"4": taken("a", "holdfast-releasing/r"), "5": taken("", ""), "6": taken("a", ""), "999": taken("c", "ns/web-0"),
	}), start)
	x.apply(newPool("q", "broken", "6", allocations{"1": taken("a", "ns/db-0")}), start)
	for name, tc := range map[string]struct {
		query    query
		entries  []string
		problems []string
	}{
		"by podref: its entries, and its problem, which is no absence": {
			queryOf(ipam.Query{Pod: ipam.PodRef{Namespace: "ns", Name: "web-0"}}), []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, []string{"999"},
		},
		"by podref, of a pool whose range is broken": {queryOf(ipam.Query{Pod: ipam.PodRef{Namespace: "ns", Name: "db-0"}}), nil, []string{"1"}},
		"by sandbox: under any podref":               {queryOf(ipam.Query{SandboxIDs: []string{"a"}}), []string{"10.0.0.1", "10.0.0.2", "10.0.0.4", "10.0.0.6"}, []string{"6", "1"}},
		"by record":                                  {queryOf(ipam.Query{Record: "r"}), []string{"10.0.0.4"}, nil},
		"by all, each once": {
			queryOf(ipam.Query{Pod: ipam.PodRef{Namespace: "ns", Name: "web-0"}, SandboxIDs: []string{"a", "b", "a"}, Record: "r"}),
			[]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.6"}, []string{"6", "999", "1"},
		},
		"by place: any entry there, and once": {
			queryOf(ipam.Query{Record: "r", Places: places("p", "10.0.0.4", "10.0.0.5", "10.0.0.77", "fd00::1")}),
			[]string{"10.0.0.4"}, []string{"5"},
		},
		"by place, in a pool whose range is broken: unknown": {
			queryOf(ipam.Query{Places: places("q", "10.0.0.1", "10.0.0.2")}), nil, []string{""},
		},
		"by place, where nothing stands":     {queryOf(ipam.Query{Places: places("p", "10.0.0.77")}), nil, nil},
		"by place, in no pool":               {queryOf(ipam.Query{Places: places("none", "10.0.0.1")}), nil, nil},
		"by nothing":                         {queryOf(ipam.Query{SandboxIDs: []string{""}}), nil, nil},
		"by a tombstone as if it were a pod": {queryOf(ipam.Query{Pod: ipam.PodRef{Namespace: "holdfast-releasing", Name: "other"}}), nil, nil},
		"by strangers":                       {queryOf(ipam.Query{Pod: ipam.PodRef{Namespace: "ns", Name: "none"}, SandboxIDs: []string{"none"}, Record: "none"}), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			live := []metav1.ObjectMeta{metadataOf("p", "5"), metadataOf("q", "6")}
			fresh, stale := x.findFresh(tc.query, live)
			arrange(&fresh)
			versions := map[string]string{}
			for name := range tc.query.pools() {
				if pool := x.pools[name]; pool != nil {
					versions[name] = pool.version
				}
			}
			if len(tc.entries) > 0 {
				versions["kube-system/p"] = "5"
			}
			if len(stale) > 0 {
				t.Errorf("stale pools: %v", stale)
			}
			for source, s := range map[string]ipam.Snapshot{"cached": x.find(tc.query), "fresh": fresh, "decoded": decodedSnapshot(x, tc.query)} {
				entries, problems := namesIn(s)
				if !slices.Equal(tc.entries, entries) || !slices.Equal(tc.problems, problems) {
					t.Errorf("%s: got entries %v and problems %v; want %v and %v", source, entries, problems, tc.entries, tc.problems)
				}
				if diff := cmp.Diff(versions, s.PoolVersions); diff != "" {
					t.Errorf("%s: pool versions (-want +got):\n%s", source, diff)
				}
			}
		})
	}
}

func places(pool string, ips ...string) []ipam.Place {
	var all []ipam.Place
	for _, ip := range ips {
		all = append(all, ipam.Place{Pool: "kube-system/" + pool, IP: netip.MustParseAddr(ip)})
	}
	return all
}

func metadataOf(name, version string) metav1.ObjectMeta {
	return newPool(name, "", version, nil).ObjectMeta
}

// decodedSnapshot serves the query as for pools that were read in full.
func decodedSnapshot(x *index, q query) ipam.Snapshot {
	s := ipam.Snapshot{PoolVersions: map[string]string{}}
	for name, p := range x.pools {
		pool := newPool(strings.TrimPrefix(name, "kube-system/"), p.rangeText, p.version, p.raw)
		q.filterPool(pool, &s)
	}
	arrange(&s)
	return s
}

func namesIn(s ipam.Snapshot) (entries, problems []string) {
	for _, e := range s.Entries {
		entries = append(entries, e.IP.String())
	}
	for _, p := range s.Problems {
		problems = append(problems, p.Offset)
	}
	return entries, problems
}

func TestOnlyPoolsInTheLiveVersionAreServedFromTheCache(t *testing.T) {
	x := newIndex()
	for _, name := range []string{"same", "newer", "recreated", "deleted"} {
		x.apply(newPool(name, "10.0.0.0/24", "1", allocations{"1": taken("a", "ns/web-0")}), start)
	}
	recreated := metadataOf("recreated", "1")
	recreated.UID = "other"
	live := []metav1.ObjectMeta{metadataOf("same", "1"), metadataOf("newer", "2"), recreated, metadataOf("unseen", "1")}
	s, stale := x.findFresh(queryOf(ipam.Query{Pod: ipam.PodRef{Namespace: "ns", Name: "web-0"}}), live)
	var names []string
	for _, m := range stale {
		names = append(names, m.Name)
	}
	if want := []string{"newer", "recreated", "unseen"}; !slices.Equal(want, names) {
		t.Errorf("stale pools: got %v, want %v", names, want)
	}
	want := entryOf("same", "10.0.0.1", "a", "ns/web-0", "net1")
	want.PoolResourceVersion = "1"
	if diff := cmp.Diff(ipam.Snapshot{Entries: []ipam.Entry{want}, PoolVersions: map[string]string{"kube-system/same": "1"}}, s, compareAddrs); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

// The index after any sequence of updates is what one look at the last state gives.
func TestTheIndexForgetsNothingAndKeepsNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	x, last := newIndex(), map[string]*wb.IPPool{}
	for round := range 2000 {
		name := pick("p", "q", "s")
		if r.IntN(20) == 0 {
			x.remove("kube-system/" + name)
			delete(last, name)
			continue
		}
		held := allocations{}
		if p := last[name]; p != nil {
			held = maps.Clone(p.Spec.Allocations)
		}
		for range r.IntN(4) {
			offset := pick("1", "2", "3", "bad", "300")
			if r.IntN(3) == 0 {
				delete(held, offset)
				continue
			}
			held[offset] = taken(pick("a", "b", ""), pick("ns/web-0", "ns/db-0", "holdfast-releasing/r", "", "odd"))
		}
		last[name] = newPool(name, pick("10.0.0.0/24", "10.0.0.0/24", "10.0.0.0/24", "?"), fmt.Sprint(round), held)
		x.apply(last[name], start)
	}
	fresh := newIndex()
	for _, pool := range last {
		fresh.apply(pool, start)
	}
	ignore := cmp.Options{compareAddrs, cmpopts.IgnoreFields(ipam.Seen{}, "AddObserved", "Whole", "Follows")}
	queries := map[string]query{"all fields": queryOf(ipam.Query{Pod: ipam.PodRef{Namespace: "ns", Name: "web-0"}, SandboxIDs: []string{"b"}, Record: "r"}), "sandbox": queryOf(ipam.Query{SandboxIDs: []string{"a"}})}
	for name, q := range queries {
		if diff := cmp.Diff(fresh.find(q), x.find(q), ignore); diff != "" {
			t.Errorf("%s (-one look +history):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(fresh.all(), x.all(), ignore); diff != "" {
		t.Errorf("all (-one look +history):\n%s", diff)
	}
	if x.problemCount() != len(x.all().Problems) {
		t.Errorf("problems: counted %d, found %d", x.problemCount(), len(x.all().Problems))
	}
}

func TestTheIndexMayBeReadWhileItIsWritten(t *testing.T) {
	x := newIndex()
	x.apply(newPool("p", "10.0.0.0/24", "1", allocations{"1": taken("a", "ns/web-0")}), start)
	q := queryOf(ipam.Query{Pod: ipam.PodRef{Namespace: "ns", Name: "web-0"}, SandboxIDs: []string{"a"}, Record: "r"})
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for round := range 300 {
				version := fmt.Sprint(n, "-", round)
				x.apply(newPool("p", "10.0.0.0/24", version, allocations{fmt.Sprint(round % 7): taken("a", "ns/web-0")}), start)
				if s := x.find(q); len(s.Entries) != 1 {
					t.Errorf("got %d entries in a pool that always has one", len(s.Entries))
				}
				x.findFresh(q, nil)
			}
		})
	}
	wg.Wait()
}
