// SPDX-License-Identifier: Apache-2.0

package nodestore

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
)

const creationMax = 10 * time.Minute

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func entryOf(store Store, ip, id string) Entry {
	return Entry{Store: store, IP: netip.MustParseAddr(ip), SandboxID: id, Interface: "eth0", Network: store.Name}
}

func readingOf(entries ...Entry) []Reading {
	byStore := map[Store]*Reading{}
	readings := []*Reading{}
	for _, e := range entries {
		if byStore[e.Store] == nil {
			byStore[e.Store] = &Reading{Store: e.Store}
			readings = append(readings, byStore[e.Store])
		}
		byStore[e.Store].Entries = append(byStore[e.Store].Entries, e)
	}
	var all []Reading
	for _, r := range readings {
		all = append(all, *r)
	}
	return all
}

func ready(id string) handshake.Sandbox {
	return handshake.Sandbox{ID: id, Pod: handshake.Pod{UID: types.UID("uid-of-" + id), Namespace: "default", Name: id}, State: handshake.StateReady}
}

func stopped(id string) handshake.Sandbox {
	s := ready(id)
	s.State = handshake.StateNotReady
	return s
}

// listAt is a complete list that takes a second, of sandboxes beside one that is nobody's.
func listAt(at time.Time, sandboxes ...handshake.Sandbox) handshake.Look {
	return handshake.Look{Listing: &handshake.Listing{Began: at, Ended: at.Add(time.Second), Runtime: "containerd 2", Sandboxes: append(sandboxes, ready("own"))}}
}

var failed = handshake.Look{Failure: handshake.Failure{Reason: v1alpha1.ReasonRuntimeUnreachable, Message: "nobody there"}}

// clockwork makes passes a minute apart.
type clockwork struct {
	audit *Audit
	now   time.Time
}

func newClockwork() *clockwork {
	return &clockwork{audit: NewAudit(handshake.Settings{SandboxCreationMax: creationMax}), now: start}
}

// pass reads, and a second later lists; a nil list fails.
func (c *clockwork) pass(readings []Reading, listed func(at time.Time) handshake.Look) Report {
	read := c.now
	report := c.audit.Compare(readings, read, listed(read.Add(time.Second)))
	c.now = c.now.Add(time.Minute)
	return report
}

func shows(sandboxes ...handshake.Sandbox) func(time.Time) handshake.Look {
	return func(at time.Time) handshake.Look { return listAt(at, sandboxes...) }
}

func fails(time.Time) handshake.Look { return failed }

func kindsOf(findings []Finding) []v1alpha1.Reason {
	kinds := []v1alpha1.Reason{}
	for _, f := range findings {
		kinds = append(kinds, f.Kind)
	}
	return kinds
}

// leak makes passes until the entry is told as a leak.
func (c *clockwork) leak(t *testing.T, e Entry) {
	t.Helper()
	for range 20 {
		if r := c.pass(readingOf(e), shows()); len(r.Begun) > 0 {
			return
		}
	}
	t.Fatal("no leak after 20 minutes")
}

func TestALeakIsAbsentFromAnUnbrokenRowOfListsForLongerThanItTakesToMakeASandbox(t *testing.T) {
	c := newClockwork()
	e := entryOf(network, "10.1.2.3", "a")
	leaked := []v1alpha1.Reason{v1alpha1.ReasonAddressLeaked}
	type told struct {
		Begun, Standing, Over []v1alpha1.Reason
		Gone                  []Entry
	}
	tellingOf := func(r Report) told { return told{kindsOf(r.Begun), kindsOf(r.Standing), kindsOf(r.Over), r.Gone} }
	none := []v1alpha1.Reason{}
	for minute := range 20 {
		r := c.pass(readingOf(e), shows(ready("b")))
		want := told{none, none, none, nil}
		// The first list ends at 0:02, so that the one of 11:01 is the first that begins more than ten minutes later.
		if minute >= 11 {
			want = told{none, leaked, none, []Entry{e}}
		}
		if minute == 11 {
			want.Begun = leaked
		}
		if diff := cmp.Diff(want, tellingOf(r), addresses); diff != "" {
			t.Fatalf("minute %d (-want +got)\n%s", minute, diff)
		}
		message := "host-local store /var/lib/cni/networks (cbr0) has 10.1.2.3 for sandbox a interface eth0, but no list of the runtime showed the sandbox for longer than 10m0s"
		if minute == 11 && r.Begun[0].Message != message {
			t.Errorf("want %q, got %q", message, r.Begun[0].Message)
		}
	}
	if diff := cmp.Diff(told{none, none, leaked, nil}, tellingOf(c.pass(readingOf(), shows()))); diff != "" {
		t.Errorf("the entry is gone (-want +got)\n%s", diff)
	}
}

// TestI5NothingButProofMakesALeak: ten minutes and more, in which one thing is not as it has to be.
func TestI5NothingButProofMakesALeak(t *testing.T) {
	e := entryOf(network, "10.1.2.3", "a")
	withTask := func(at time.Time) handshake.Look {
		look := listAt(at)
		look.Listing.Tasks.IDs = map[string]bool{"own": true, "a": true}
		return look
	}
	unreadTasks := func(at time.Time) handshake.Look {
		look := listAt(at)
		look.Listing.Tasks.Problem = "cannot be read"
		return look
	}
	cases := map[string]func(c *clockwork, minute int) Report{
		"no list succeeds": func(c *clockwork, _ int) Report { return c.pass(readingOf(e), fails) },
		"one list in five fails": func(c *clockwork, minute int) Report {
			return c.pass(readingOf(e), pick(minute%5 == 0, fails, shows()))
		},
		"one list in five shows it": func(c *clockwork, minute int) Report {
			return c.pass(readingOf(e), pick(minute%5 == 0, shows(ready("a")), shows()))
		},
		"every list shows it": func(c *clockwork, _ int) Report { return c.pass(readingOf(e), shows(ready("a"))) },
		"it was not recorded every time": func(c *clockwork, minute int) Report {
			return c.pass(pick(minute%5 == 0, readingOf(), readingOf(e)), shows())
		},
		"the store was not read every time": func(c *clockwork, minute int) Report {
			return c.pass(pick(minute%5 == 0, []Reading{Failed(network, v1alpha1.ReasonStoreUnreadable, "/x", "")}, readingOf(e)), shows())
		},
		"the runtime was listed before": func(c *clockwork, _ int) Report {
			return c.pass(readingOf(e), func(at time.Time) handshake.Look { return listAt(at.Add(-2 * time.Second)) })
		},
		"the lists lie too far apart": func(c *clockwork, _ int) Report {
			c.now = c.now.Add(3 * time.Minute)
			return c.pass(readingOf(e), shows())
		},
		"the runtime only failed to load it": func(c *clockwork, _ int) Report { return c.pass(readingOf(e), withTask) },
		"what the runtime runs is not known": func(c *clockwork, _ int) Report { return c.pass(readingOf(e), unreadTasks) },
		"it is not ready, but listed":        func(c *clockwork, _ int) Report { return c.pass(readingOf(e), shows(stopped("a"))) },
		"it was ready until two minutes ago": func(c *clockwork, minute int) Report {
			return c.pass(readingOf(e), pick(minute < 28, shows(ready("a")), shows()))
		},
		"its entry was another one's earlier": func(c *clockwork, minute int) Report {
			return c.pass(readingOf(pick(minute < 28, entryOf(network, "10.1.2.3", "b"), e)), shows(ready("b")))
		},
	}
	for name, pass := range cases {
		t.Run(name, func(t *testing.T) {
			c := newClockwork()
			for minute := range 30 {
				r := pass(c, minute)
				if slices.Contains(kindsOf(r.Standing), v1alpha1.ReasonAddressLeaked) || len(r.Gone) > 0 {
					t.Fatalf("minute %d: %+v", minute, r)
				}
			}
		})
	}
}

func pick[T any](first bool, x, y T) T {
	if first {
		return x
	}
	return y
}

func TestALeakStandsUntilItIsShownToBeOver(t *testing.T) {
	e := entryOf(network, "10.1.2.3", "a")
	whole := Store{Backend: HostLocal, Source: network.Source}
	cases := map[string]struct {
		readings []Reading
		listed   func(time.Time) handshake.Look
		stands   bool
	}{
		"the list fails":                        {readingOf(e), fails, true},
		"its store cannot be read":              {[]Reading{Failed(network, v1alpha1.ReasonStoreUnreadable, "/x", "")}, shows(), true},
		"no store of its source can be read":    {[]Reading{Failed(whole, v1alpha1.ReasonStoreUnreadable, "/x", "")}, shows(), true},
		"neither":                               {[]Reading{Failed(whole, v1alpha1.ReasonStoreUnreadable, "/x", "")}, fails, true},
		"nothing changes":                       {readingOf(e), shows(), true},
		"the entry is gone":                     {readingOf(), shows(), false},
		"the entry is gone, and the list fails": {readingOf(), fails, false},
		"the address is another sandbox's":      {readingOf(entryOf(network, "10.1.2.3", "b")), shows(ready("b")), false},
		"the sandbox is listed after all":       {readingOf(e), shows(ready("a")), false},
		"another store cannot be read":          {[]Reading{Failed(Store{Backend: HostLocal, Source: "/other"}, v1alpha1.ReasonStoreUnreadable, "/x", "")}, shows(), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newClockwork()
			c.leak(t, e)
			r := c.pass(tc.readings, tc.listed)
			if slices.Contains(kindsOf(r.Standing), v1alpha1.ReasonAddressLeaked) != tc.stands || slices.Contains(kindsOf(r.Over), v1alpha1.ReasonAddressLeaked) == tc.stands {
				t.Errorf("want standing %v, got %+v", tc.stands, r)
			}
		})
	}
}

func TestWhatIsReclaimedIsProvenByTheListOfItsPass(t *testing.T) {
	e := entryOf(network, "10.1.2.3", "a")
	c := newClockwork()
	c.leak(t, e)
	if r := c.pass(readingOf(e), fails); len(r.Gone) != 0 || len(r.Standing) != 1 {
		t.Errorf("the list failed: %+v", r)
	}
	for minute := range 11 {
		if r := c.pass(readingOf(e), shows()); len(r.Gone) != 0 || len(r.Standing) != 1 || len(r.Begun)+len(r.Over) != 0 {
			t.Fatalf("minute %d of a row that begins again: %+v", minute, r)
		}
	}
	if r := c.pass(readingOf(e), shows()); !slices.Equal(r.Gone, []Entry{e}) {
		t.Errorf("the row is long enough again: %+v", r)
	}
}

func TestAStoppedSandboxIsCountedAndNotTold(t *testing.T) {
	e := entryOf(network, "10.1.2.3", "a")
	c := newClockwork()
	r := c.pass(readingOf(e), shows(stopped("a")))
	if diff := cmp.Diff([]v1alpha1.Reason{v1alpha1.ReasonAddressOfStoppedSandbox}, kindsOf(r.Standing)); diff != "" || r.Standing[0].Reported() || len(r.Gone) != 0 {
		t.Fatalf("(-want +got)\n%s\n%+v", diff, r)
	}
	if r := c.pass(readingOf(e), fails); len(r.Standing) != 1 {
		t.Errorf("the list failed: %+v", r)
	}
	if r := c.pass(readingOf(e), shows(ready("a"))); len(r.Standing) != 0 {
		t.Errorf("ready: %+v", r)
	}
}

func TestDuplicates(t *testing.T) {
	other := Store{Backend: HostLocal, Source: network.Source, Name: "cbr1"}
	elsewhere := Store{Backend: HostLocal, Source: "/other/networks", Name: "cbr0"}
	card := Store{Backend: AWSIPAMD, Source: ipam.Source, Name: "ipam-nic-1.json"}
	both := shows(ready("a"), ready("b"))
	cases := map[string]struct {
		entries []Entry
		listed  func(time.Time) handshake.Look
		want    []v1alpha1.Reason
	}{
		"two addresses":                              {[]Entry{entryOf(network, "10.1.2.3", "a"), entryOf(other, "10.1.2.4", "b")}, both, nil},
		"two sandboxes of one checkpoint":            {[]Entry{entryOf(ipam, "10.1.2.3", "a"), entryOf(ipam, "10.1.2.3", "b")}, both, []v1alpha1.Reason{v1alpha1.ReasonAddressDuplicated, v1alpha1.ReasonAddressDuplicated}},
		"one allocation twice":                       {[]Entry{entryOf(ipam, "10.1.2.3", "a"), entryOf(ipam, "10.1.2.3", "a")}, both, []v1alpha1.Reason{v1alpha1.ReasonAddressDuplicated}},
		"two network cards of one machine":           {[]Entry{entryOf(ipam, "10.1.2.3", "a"), entryOf(card, "10.1.2.3", "b")}, both, []v1alpha1.Reason{v1alpha1.ReasonAddressDuplicated, v1alpha1.ReasonAddressDuplicated}},
		"two networks, both sandboxes listed":        {[]Entry{entryOf(network, "10.1.2.3", "a"), entryOf(other, "10.1.2.3", "b")}, both, []v1alpha1.Reason{v1alpha1.ReasonAddressInTwoNetworks, v1alpha1.ReasonAddressInTwoNetworks}},
		"two data directories":                       {[]Entry{entryOf(network, "10.1.2.3", "a"), entryOf(elsewhere, "10.1.2.3", "b")}, both, []v1alpha1.Reason{v1alpha1.ReasonAddressInTwoNetworks, v1alpha1.ReasonAddressInTwoNetworks}},
		"two networks, one sandbox not listed":       {[]Entry{entryOf(network, "10.1.2.3", "a"), entryOf(other, "10.1.2.3", "b")}, shows(ready("a")), nil},
		"two networks, and the list fails":           {[]Entry{entryOf(network, "10.1.2.3", "a"), entryOf(other, "10.1.2.3", "b")}, fails, nil},
		"one checkpoint, and the list fails":         {[]Entry{entryOf(ipam, "10.1.2.3", "a"), entryOf(ipam, "10.1.2.3", "b")}, fails, []v1alpha1.Reason{v1alpha1.ReasonAddressDuplicated, v1alpha1.ReasonAddressDuplicated}},
		"stores of two IPAMs, which share no ranges": {[]Entry{entryOf(network, "10.1.2.3", "a"), entryOf(ipam, "10.1.2.3", "b")}, both, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newClockwork()
			if r := c.pass(readingOf(tc.entries...), tc.listed); len(r.Standing) != 0 {
				t.Fatalf("told before it was found twice: %+v", r.Standing)
			}
			r := c.pass(readingOf(tc.entries...), tc.listed)
			if diff := cmp.Diff(append([]v1alpha1.Reason{}, tc.want...), kindsOf(r.Begun)); diff != "" {
				t.Errorf("(-want +got)\n%s\n%+v", diff, r.Begun)
			}
		})
	}
}

func TestADefectIsToldWhenItIsFoundTwiceInARow(t *testing.T) {
	broken := Reading{Store: network, Defects: []Defect{{Store: network, Reason: v1alpha1.ReasonStoreBroken, Path: "/x/10.1.2.3", Message: "the file is empty"}}}
	whole := Reading{Store: network}
	cases := map[string]struct {
		readings []Reading
		begun    []int // the passes in which it is told
		over     []int
	}{
		"written in two steps, seen between them": {[]Reading{broken, whole, whole}, nil, nil},
		"every second time":                       {[]Reading{broken, whole, broken, whole, broken}, nil, nil},
		"to stay":                                 {[]Reading{broken, broken, broken}, []int{1}, nil},
		"put right, and broken again":             {[]Reading{broken, broken, whole, broken, broken}, []int{1, 4}, []int{2}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newClockwork()
			var begun, over []int
			for at, reading := range tc.readings {
				r := c.pass([]Reading{reading}, shows())
				if len(r.Begun) > 0 {
					begun = append(begun, at)
				}
				if len(r.Over) > 0 {
					over = append(over, at)
				}
			}
			if diff := cmp.Diff([][]int{tc.begun, tc.over}, [][]int{begun, over}); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestEntriesAreCountedByIPAM(t *testing.T) {
	c := newClockwork()
	r := c.pass(readingOf(entryOf(network, "10.1.2.3", "a"), entryOf(network, "10.1.2.4", "a"), entryOf(ipam, "10.1.2.3", "b")), shows(ready("a"), ready("b")))
	if diff := cmp.Diff(map[Backend]int{HostLocal: 2, AWSIPAMD: 1}, r.Entries); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// moment is a pass of the random test: what of the sandbox was seen in it.
type moment struct {
	at                       time.Time
	recorded, listed, failed bool
}

// TestI5LeaksAgainstAnIndependentStatement: random passes; what is called gone was recorded and absent in each of an unbroken row of
// passes that spans more than creationMax, and what was is called gone.
func TestI5LeaksAgainstAnIndependentStatement(t *testing.T) {
	const runs, passes = 3000, 40
	proven := 0
	for run := range runs {
		random := rand.New(rand.NewPCG(1, uint64(run)))
		audit := NewAudit(handshake.Settings{SandboxCreationMax: creationMax})
		e := entryOf(network, "10.1.2.3", "a")
		var past []moment
		now := start
		for range passes {
			now = now.Add(time.Duration(20+random.IntN(110)) * time.Second)
			m := moment{at: now, recorded: random.IntN(20) > 0, listed: random.IntN(25) == 0, failed: random.IntN(30) == 0}
			past = append(past, m)
			look := listAt(m.at)
			if m.listed {
				look = listAt(m.at, pick(random.IntN(2) == 0, ready("a"), stopped("a")))
			}
			r := audit.Compare(pick(m.recorded, readingOf(e), readingOf()), m.at, pick(m.failed, failed, look))
			want := isGone(past)
			if want {
				proven++
			}
			if got := len(r.Gone) == 1; got != want {
				t.Fatalf("run %d: want gone %v, got %v after %s", run, want, got, tell(past))
			}
		}
	}
	if proven < runs {
		t.Errorf("only %d passes had something to prove", proven)
	}
}

// isGone states the rule anew: backwards from the last pass, over passes in which it was recorded and a complete list did not
// show it, none of which begins more than MaxGap after the list before it ended.
func isGone(past []moment) bool {
	last := past[len(past)-1]
	var since time.Time
	for i := len(past) - 1; i >= 0; i-- {
		m := past[i]
		if !m.recorded || m.listed || m.failed {
			break
		}
		ended := m.at.Add(time.Second)
		if i < len(past)-1 && past[i+1].at.Sub(ended) > handshake.MaxGap {
			break
		}
		since = ended
	}
	return !since.IsZero() && last.at.Sub(since) > creationMax
}

func tell(past []moment) string {
	text := ""
	for _, m := range past {
		text += fmt.Sprintf("\n%s recorded %v listed %v failed %v", m.at.Sub(start), m.recorded, m.listed, m.failed)
	}
	return text
}
