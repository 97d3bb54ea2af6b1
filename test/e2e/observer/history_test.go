// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	start    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	address  = netip.MustParseAddr("192.168.2.3")
	onNodeA  = Place{Node: "node-a", Sandbox: "cni-1", Inode: 1, Interface: "net1", MAC: "02:00:00:00:00:01"}
	onNodeB  = Place{Node: "node-b", Sandbox: "cni-2", Inode: 2, Interface: "net1", MAC: "02:00:00:00:00:02"}
	twoSecs  = Limits{Closing: 2 * time.Second}
	lookStep = 100 * time.Millisecond
)

// glance is what one look sees: A and B are places alive, a and b the same without a process.
func glance(letters string) []Observation {
	kinds := map[rune]Observation{
		'A': {Address: address, Place: onNodeA, Alive: true}, 'a': {Address: address, Place: onNodeA},
		'B': {Address: address, Place: onNodeB, Alive: true}, 'b': {Address: address, Place: onNodeB},
	}
	var seen []Observation
	for _, letter := range letters {
		seen = append(seen, kinds[letter])
	}
	return seen
}

func TestVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		looks      []string
		duplicates int
		closing    int
	}{
		"none has it":         {looks: []string{"", ""}},
		"one after the other": {looks: []string{"A", "A", "", "B", "B"}},
		"one after the other without a look between":  {looks: []string{"A", "A", "B", "B"}},
		"both at one look":                            {looks: []string{"A", "AB", "B"}, duplicates: 1},
		"both for long":                               {looks: []string{"A", "AB", "AB", "AB"}, duplicates: 1},
		"the first is closing for a moment":           {looks: []string{"A", "a", "aB", "B"}, closing: 1},
		"the first is closing for too long":           {looks: append([]string{"A"}, repeat("aB", 22)...), duplicates: 1},
		"the first is closing for as long as it may":  {looks: append([]string{"A"}, repeat("aB", 21)...), closing: 1},
		"a sandbox that never had a process, and one": {looks: []string{"b", "Ab", "A"}, closing: 1},
		"it comes back to the first":                  {looks: []string{"A", "", "B", "", "A"}},
		"it comes back while the second still has it": {looks: []string{"A", "", "B", "AB"}, duplicates: 1},
		"alive, closing, and alive again beside it":   {looks: []string{"A", "aB", "AB"}, duplicates: 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			for i, letters := range test.looks {
				h.look(start.Add(time.Duration(i)*lookStep), glance(letters))
			}
			verdict := h.verdict(twoSecs)
			if got, want := []int{len(verdict.Duplicates), verdict.Closing}, []int{test.duplicates, test.closing}; !cmp.Equal(got, want) {
				t.Errorf("duplicates and closing: got %v, expected %v\n%s", got, want, verdict)
			}
		})
	}
}

func TestOneSandboxIsNoDuplicateOfItself(t *testing.T) {
	second := onNodeA
	second.Interface, second.MAC = "net2", "02:00:00:00:00:03"
	h := newHistory()
	h.look(start, []Observation{{Address: address, Place: onNodeA, Alive: true}, {Address: address, Place: second, Alive: true}})
	if verdict := h.verdict(twoSecs); len(verdict.Duplicates) != 0 || verdict.Closing != 0 {
		t.Errorf("one sandbox with the address on two interfaces: got %s", verdict)
	}
}

func TestANameThatComesBackIsAnotherSandbox(t *testing.T) {
	again := onNodeA
	again.Node = "node-b"
	h := newHistory()
	h.look(start, []Observation{{Address: address, Place: onNodeA, Alive: true}, {Address: address, Place: again, Alive: true}})
	if verdict := h.verdict(twoSecs); len(verdict.Duplicates) != 1 {
		t.Errorf("two nodes with a namespace of one name and number: got %s", verdict)
	}
}

func TestRivalsOnTheWire(t *testing.T) {
	type claim struct {
		after time.Duration
		mac   string
	}
	for name, test := range map[string]struct {
		claims []claim
		rivals int
	}{
		"one claimant":                      {claims: []claim{{0, "1"}, {time.Minute, "1"}}},
		"one after the other":               {claims: []claim{{0, "1"}, {time.Minute, "1"}, {2 * time.Minute, "2"}}},
		"the first is seen for long beside": {claims: []claim{{0, "1"}, {time.Second, "2"}, {5 * time.Second, "1"}}, rivals: 1},
		"the first is seen once more":       {claims: []claim{{0, "1"}, {time.Second, "2"}, {2 * time.Second, "1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			for _, h2 := range test.claims {
				h.claim(start.Add(h2.after), address, h2.mac)
			}
			if got := h.verdict(twoSecs).OnTheWire; len(got) != test.rivals {
				t.Errorf("got %q, expected %d", got, test.rivals)
			}
		})
	}
}

func TestAVerdictSaysWhatItCouldNotSee(t *testing.T) {
	h := newHistory()
	h.look(start, nil)
	h.look(start.Add(time.Second), nil)
	h.failure(start, "looking into a sandbox")
	want := Verdict{Looks: 2, LongestGap: time.Second, Failures: []string{"03:04:05: looking into a sandbox"}}
	if diff := cmp.Diff(want, h.verdict(twoSecs)); diff != "" {
		t.Errorf("verdict (-expected +got):\n%s", diff)
	}
}

func repeat(letters string, times int) []string {
	looks := make([]string, times)
	for i := range looks {
		looks[i] = letters
	}
	return looks
}
