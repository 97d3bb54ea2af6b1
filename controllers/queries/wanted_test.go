// SPDX-License-Identifier: Apache-2.0

package queries

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	node   = types.UID("node-1")
	record = "pod-uid"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)

// store is a GuardedNode with the queries that were written into it.
type store struct {
	*testing.T
	*Wanted
	object v1alpha1.GuardedNode
}

func newStore(t *testing.T) *store {
	return &store{t, NewWanted(), v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: string(node)}}}
}

// read are the queries about a record, as a pass reads them.
func (s *store) read(record string) *facts.Queries {
	read := facts.QueriesIn(release.Known([]v1alpha1.GuardedNode{*s.object.DeepCopy()}), record)
	read.Pending = s.pending(record)
	return &read
}

func queryAbout(sandbox string) v1alpha1.SandboxQuery {
	return v1alpha1.SandboxQuery{SandboxID: sandbox}
}

func isNeeded(*v1alpha1.SandboxQuery) bool { return true }

// next are the queries that the writer would write.
func (s *store) next() ([]v1alpha1.SandboxQuery, func()) {
	return s.Next(node, s.object.Spec.Queries, s.object.Generation+1, now, isNeeded)
}

// write writes the changes.
func (s *store) write() {
	s.Helper()
	before := s.object.DeepCopy().Spec.Queries
	next, done := s.next()
	if diff := cmp.Diff(before, s.object.Spec.Queries); diff != "" {
		s.Errorf("the queries that stand were changed in place (-before +after):\n%s", diff)
	}
	if cmp.Equal(before, next) {
		done()
		return
	}
	s.object.Spec.Queries, s.object.Generation = next, s.object.Generation+1
	done()
}

// epochs are the epochs of the standing queries about a record, by sandbox.
func (s *store) epochs(record string) map[string]int64 {
	epochs := map[string]int64{}
	for _, q := range s.object.Spec.Queries {
		if q.Record == record {
			epochs[q.SandboxID] = q.Epoch
		}
	}
	return epochs
}

func (s *store) has(want map[string]int64) {
	s.Helper()
	if diff := cmp.Diff(want, s.epochs(record)); diff != "" {
		s.Errorf("epochs of the queries (-want +got):\n%s", diff)
	}
}

func (s *store) hasForgotten() {
	s.Helper()
	if len(s.of) != 0 || len(s.about) != 0 {
		s.Errorf("still wanted: %v, by record %v", s.of, s.about)
	}
}

func TestAllThatIsWantedIsOneWriteOfQueriesWithTheNextGeneration(t *testing.T) {
	s := newStore(t)
	s.object.Generation = 6
	s.Make(s.read(record), node, v1alpha1.SandboxQuery{Record: "is filled in", SandboxID: "b", BootID: "boot", Purpose: v1alpha1.PurposeRelease, OutOfService: true, Epoch: 99})
	s.Make(s.read(record), node, v1alpha1.SandboxQuery{SandboxID: "a", BootID: "boot", Purpose: v1alpha1.PurposeRewrite})
	s.Make(s.read("another"), node, queryAbout("a"))
	s.Make(s.read(record), "node-2", queryAbout("a"))
	s.write()
	at := metav1.NewTime(now.Truncate(time.Second).Add(time.Second)) // never earlier than it was made
	want := []v1alpha1.SandboxQuery{
		{Record: record, SandboxID: "b", Epoch: 7, BootID: "boot", Purpose: v1alpha1.PurposeRelease, OutOfService: true, Time: at},
		{Record: record, SandboxID: "a", Epoch: 7, BootID: "boot", Purpose: v1alpha1.PurposeRewrite, Time: at},
		{Record: "another", SandboxID: "a", Epoch: 7, Time: at},
	}
	if diff := cmp.Diff(want, s.object.Spec.Queries); diff != "" {
		t.Errorf("queries (-want +got):\n%s", diff)
	}
	if pending := s.pending(record); len(pending) != 1 || !pending[facts.QueryKey{NodeUID: "node-2", SandboxID: "a"}] {
		t.Errorf("pending %v; expected the query to the other node alone", pending)
	}
}

func TestAWantSupersedesTheQueryThatItsPassSawAndNoOther(t *testing.T) {
	for name, tc := range map[string]struct {
		want func(*store, *facts.Queries)
		// meanwhile are the queries at the time of the write; nil if they are those that the pass read.
		meanwhile []v1alpha1.SandboxQuery
		epochs    map[string]int64
	}{
		"it is replaced": {want: func(s *store, read *facts.Queries) { s.Make(read, node, queryAbout("a")) }, epochs: map[string]int64{"a": 6, "b": 2}},
		"it is withdrawn": {want: func(s *store, read *facts.Queries) { s.Withdraw(read, facts.QueryKey{NodeUID: node, SandboxID: "a"}) },
			epochs: map[string]int64{"b": 2}},
		"another one stands, which is not replaced": {want: func(s *store, read *facts.Queries) { s.Make(read, node, queryAbout("a")) },
			meanwhile: []v1alpha1.SandboxQuery{{Record: record, SandboxID: "a", Epoch: 4}}, epochs: map[string]int64{"a": 4}},
		"another one stands, which is not withdrawn": {want: func(s *store, read *facts.Queries) { s.Withdraw(read, facts.QueryKey{NodeUID: node, SandboxID: "a"}) },
			meanwhile: []v1alpha1.SandboxQuery{{Record: record, SandboxID: "a", Epoch: 4}}, epochs: map[string]int64{"a": 4}},
		"none stands any more, and none is made": {want: func(s *store, read *facts.Queries) { s.Make(read, node, queryAbout("a")) },
			meanwhile: []v1alpha1.SandboxQuery{{Record: record, SandboxID: "b", Epoch: 2}}, epochs: map[string]int64{"b": 2}},
		"one stands where the pass saw none": {want: func(s *store, read *facts.Queries) { s.Make(read, node, queryAbout("c")) },
			meanwhile: []v1alpha1.SandboxQuery{{Record: record, SandboxID: "c", Epoch: 5}}, epochs: map[string]int64{"c": 5}},
		"none was read, so that none is withdrawn": {want: func(s *store, read *facts.Queries) { s.Withdraw(read, facts.QueryKey{NodeUID: node, SandboxID: "c"}) },
			epochs: map[string]int64{"a": 3, "b": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			s.object.Generation = 5
			s.object.Spec.Queries = []v1alpha1.SandboxQuery{{Record: record, SandboxID: "a", Epoch: 3}, {Record: record, SandboxID: "b", Epoch: 2},
				{Record: "another", SandboxID: "a", Epoch: 1}}
			read := s.read(record)
			if tc.meanwhile != nil {
				s.object.Spec.Queries = tc.meanwhile
			}
			tc.want(s, read)
			s.write()
			s.has(tc.epochs)
			s.hasForgotten()
		})
	}
}

// TestR5AQueryThatIsWithdrawnAndWantedAgainGetsAnotherEpoch, written in between or not: a late response must not count for both.
func TestR5AQueryThatIsWithdrawnAndWantedAgainGetsAnotherEpoch(t *testing.T) {
	for name, isWritten := range map[string]bool{"the withdrawal was written": true, "it never was": false} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			s.Make(s.read(record), node, queryAbout("a"))
			s.write()
			s.has(map[string]int64{"a": 1})
			s.Withdraw(s.read(record), facts.QueryKey{NodeUID: node, SandboxID: "a"})
			if isWritten {
				s.write()
				s.has(map[string]int64{})
			}
			s.Make(s.read(record), node, queryAbout("a"))
			s.write()
			s.has(map[string]int64{"a": s.object.Generation})
			s.hasForgotten()
		})
	}
}

// TestAQueryThatIsPendingDoesNotStand: it counts as absent until the write.
func TestAQueryThatIsPendingDoesNotStand(t *testing.T) {
	s := newStore(t)
	s.Make(s.read(record), node, queryAbout("a"))
	s.write()
	if read := s.read(record); !read.About("a", node).Query.IsKnown() {
		t.Fatal("the query that was written does not stand")
	}
	s.Withdraw(s.read(record), facts.QueryKey{NodeUID: node, SandboxID: "a"})
	if read := s.read(record); read.About("a", node).Query.IsKnown() || len(read.All()) != 0 {
		t.Error("a query that is to be withdrawn stands")
	}
	if read := s.read("another"); len(read.Pending) != 0 {
		t.Errorf("pending %v about another record", read.Pending)
	}
	pending := s.pending(record)
	delete(pending, facts.QueryKey{NodeUID: node, SandboxID: "a"})
	if len(s.pending(record)) != 1 {
		t.Error("what a pass read is not its own copy")
	}
	s.write()
	if read := s.read(record); read.Pending != nil || len(read.All()) != 0 {
		t.Errorf("queries %+v, pending %v; expected none after the withdrawal", read.Objects, read.Pending)
	}
}

func TestQueriesBeyondTheCapacityWait(t *testing.T) {
	s := newStore(t)
	for i := range Capacity + 2 {
		s.Make(s.read(fmt.Sprintf("pod-%04d", i)), node, queryAbout("a"))
	}
	s.write()
	if got := len(s.object.Spec.Queries); got != Capacity {
		t.Fatalf("%d queries, want %d", got, Capacity)
	}
	waiting := []string{fmt.Sprintf("pod-%04d", Capacity), fmt.Sprintf("pod-%04d", Capacity+1)}
	for _, record := range waiting {
		if len(s.pending(record)) != 1 {
			t.Errorf("the query about %s does not wait in memory", record)
		}
	}
	s.Make(s.read("pod-0001"), node, queryAbout("a")) // a replacement needs no capacity
	s.write()
	if epoch := s.epochs("pod-0001")["a"]; epoch != 2 {
		t.Errorf("the query that was to be replaced has epoch %d, want 2", epoch)
	}
	s.Withdraw(s.read("pod-0000"), facts.QueryKey{NodeUID: node, SandboxID: "a"})
	s.write()
	if got := s.epochs(waiting[0]); got["a"] != s.object.Generation || len(s.epochs(waiting[1])) != 0 || len(s.object.Spec.Queries) != Capacity {
		t.Errorf("epochs %v and %v of %d queries; expected the first that waits to be made", got, s.epochs(waiting[1]), len(s.object.Spec.Queries))
	}
}

// TestAQueryThatAPodWaitsForComesFirst: pods that fail at each start want a query about each sandbox that they had.
func TestAQueryThatAPodWaitsForComesFirst(t *testing.T) {
	s := newStore(t)
	about := func(purpose v1alpha1.QueryPurpose) v1alpha1.SandboxQuery {
		q := queryAbout("a")
		q.Purpose = purpose
		return q
	}
	for i := range Capacity {
		s.Make(s.read(fmt.Sprintf("pod-%04d", i)), node, about(v1alpha1.PurposeRewrite))
	}
	s.write()
	if s.IsFull(node) {
		t.Error("it is full before a query waits")
	}
	for _, record := range []string{"z-first", "a-second"} {
		s.Make(s.read(record), node, about(v1alpha1.PurposeRewrite))
	}
	s.Make(s.read("ended"), node, about(v1alpha1.PurposeRelease))
	s.Make(s.read("z-first"), node, about(v1alpha1.PurposeRewrite)) // it keeps its place
	s.write()
	if !s.IsFull(node) {
		t.Error("it is not full, and queries wait")
	}
	for i, next := range []string{"ended", "z-first", "a-second"} {
		s.Withdraw(s.read(fmt.Sprintf("pod-%04d", i)), facts.QueryKey{NodeUID: node, SandboxID: "a"})
		s.write()
		if len(s.epochs(next)) != 1 {
			t.Errorf("of the queries that wait, that about %s was not made", next)
		}
	}
	if s.IsFull(node) {
		t.Error("it is full, and no query waits")
	}
}

func TestOnlyWrittenChangesAreDropped(t *testing.T) {
	s := newStore(t)
	s.Make(s.read(record), node, queryAbout("a"))
	s.Make(s.read(record), node, queryAbout("b"))
	next, done := s.next()
	s.object.Generation++
	s.object.Spec.Queries = next
	s.Make(&facts.Queries{Record: record}, node, v1alpha1.SandboxQuery{SandboxID: "a", BootID: "next-boot"}) // by a pass that read before the write
	s.Make(s.read(record), node, queryAbout("c"))
	done()
	want := map[facts.QueryKey]bool{{NodeUID: node, SandboxID: "a"}: true, {NodeUID: node, SandboxID: "c"}: true}
	if diff := cmp.Diff(want, s.pending(record)); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	done() // a second call forgets nothing that came since
	s.write()
	s.has(map[string]int64{"a": 1, "b": 1, "c": 2})
	s.hasForgotten()
}

// TestAFailedWriteKeepsTheChanges: done is not called, and the next write has them.
func TestAFailedWriteKeepsTheChanges(t *testing.T) {
	s := newStore(t)
	s.Make(s.read(record), node, queryAbout("a"))
	s.next()
	s.object.Generation = 4 // another write was faster
	s.write()
	s.has(map[string]int64{"a": 5})
	s.hasForgotten()
}

func TestQueriesThatAreNotNeededAreWithdrawn(t *testing.T) {
	s := newStore(t)
	for _, id := range []string{"a", "b"} {
		s.Make(s.read(record), node, queryAbout(id))
	}
	s.write()
	for _, isLeft := range []string{"b", ""} {
		standing := slices.Clone(s.object.Spec.Queries)
		next, done := s.Next(node, s.object.Spec.Queries, s.object.Generation+1, now, func(q *v1alpha1.SandboxQuery) bool { return q.SandboxID == isLeft })
		if diff := cmp.Diff(standing, s.object.Spec.Queries); diff != "" {
			t.Fatalf("the queries of the cache changed (-want +got):\n%s", diff)
		}
		done()
		s.object.Spec.Queries = next
	}
	if s.object.Spec.Queries != nil {
		t.Errorf("queries %#v; expected nil, as an object without any is read", s.object.Spec.Queries)
	}
}

// TestR4NoTwoQueriesHaveTheSameEpoch; only those of one write share it, and they are about different sandboxes.
func TestR4NoTwoQueriesHaveTheSameEpoch(t *testing.T) {
	s := newStore(t)
	seen := map[string]bool{}
	for round := range 200 {
		for i, id := range []string{"a", "b", "c"} {
			read := s.read(record)
			switch (round/(i+1) + i) % 3 {
			case 0:
				s.Make(read, node, queryAbout(id))
			case 1:
				s.Withdraw(read, facts.QueryKey{NodeUID: node, SandboxID: id})
			}
		}
		before := s.epochs(record)
		s.write()
		for id, epoch := range s.epochs(record) {
			if key := fmt.Sprint(id, epoch); before[id] != epoch && (seen[key] || epoch != s.object.Generation) {
				t.Fatalf("round %d: a query about %s has epoch %d again, at generation %d", round, id, epoch, s.object.Generation)
			} else {
				seen[key] = true
			}
		}
	}
}

func TestTheWriterIsCalledWithEachNodeWithAChange(t *testing.T) {
	s := newStore(t)
	var called []types.UID
	s.Subscribe(func(node types.UID) {
		called = append(called, node)
		s.pending(record) // it may read what is wanted
	})
	s.Make(s.read(record), "node-2", queryAbout("a"))
	s.Make(s.read(record), node, queryAbout("a"))
	s.write()
	s.Withdraw(s.read(record), facts.QueryKey{NodeUID: node, SandboxID: "none"})
	s.Withdraw(s.read(record), facts.QueryKey{NodeUID: node, SandboxID: "a"})
	if diff := cmp.Diff([]types.UID{"node-2", node, node}, called); diff != "" {
		t.Errorf("called with (-want +got):\n%s", diff)
	}
}
