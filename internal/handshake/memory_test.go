// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// at is a list that began so long after the start and took a second.
func at(offset time.Duration, sandboxes ...Sandbox) Look {
	return Look{Listing: &Listing{Began: start.Add(offset), Ended: start.Add(offset + time.Second), Sandboxes: sandboxes}}
}

var failure = Look{Failure: Failure{Reason: v1alpha1.ReasonRuntimeUnreachable}}

func TestMemory(t *testing.T) {
	asked := Question{SandboxID: id, Seen: start}
	there := Sandbox{ID: id, Pod: web, State: StateReady}
	cases := map[string]struct {
		questions []Question
		looks     []Look
		want      Recollection
	}{
		"nothing was seen": {want: Recollection{}},
		"a sandbox that was listed is remembered with its pod, asked or not": {
			looks: []Look{at(0, there)}, want: Recollection{Pod: web, Listed: true}},
		"it is remembered when it is gone": {
			looks: []Look{at(0, there), at(time.Minute)}, want: Recollection{Pod: web, Listed: true}},
		"and through failed lists": {
			looks: []Look{at(0, there), failure, at(time.Minute)}, want: Recollection{Pod: web, Listed: true}},
		"another pod under the ID is a clash for ever": {
			looks: []Look{at(0, there), at(1, Sandbox{ID: id, Pod: other}), at(2, there)}, want: Recollection{Pod: web, Listed: true, Clash: true}},
		"a day after its last list it is forgotten": {
			looks: []Look{at(0, there), at(25 * time.Hour)}, want: Recollection{}},
		"absence counts from the end of the first list after the mark was seen": {
			questions: []Question{asked}, looks: []Look{at(time.Second), at(time.Minute)}, want: Recollection{AbsentSince: start.Add(2 * time.Second)}},
		"a list from before the mark was seen does not count": {
			questions: []Question{asked}, looks: []Look{at(-time.Second), at(time.Minute)}, want: Recollection{AbsentSince: start.Add(time.Minute + time.Second)}},
		"absence of what nobody asked about does not count": {
			looks: []Look{at(0), at(time.Minute)}, want: Recollection{}},
		"a failed list ends the row": {
			questions: []Question{asked}, looks: []Look{at(0), failure}, want: Recollection{}},
		"and the next list begins another one": {
			questions: []Question{asked}, looks: []Look{at(0), failure, at(time.Minute)}, want: Recollection{AbsentSince: start.Add(time.Minute + time.Second)}},
		"a gap between two lists ends the row: nobody watched": {
			questions: []Question{asked}, looks: []Look{at(0), at(time.Second + MaxGap + 1)}, want: Recollection{AbsentSince: start.Add(2*time.Second + MaxGap + 1)}},
		"lists as far apart as may be are one row": {
			questions: []Question{asked}, looks: []Look{at(0), at(time.Second + MaxGap)}, want: Recollection{AbsentSince: start.Add(time.Second)}},
		"to be listed ends the row": {
			questions: []Question{asked}, looks: []Look{at(0), at(time.Second, there)}, want: Recollection{Pod: web, Listed: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var m Memory
			for _, look := range tc.looks {
				m.Expect(tc.questions)
				m.Observe(look)
			}
			if diff := cmp.Diff(tc.want, m.Recall(id)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAQuestionThatIsTakenBackTakesItsRowWithIt(t *testing.T) {
	var m Memory
	m.Expect([]Question{{SandboxID: id, Seen: start}})
	m.Observe(at(0))
	m.Expect(nil)
	m.Observe(at(time.Minute))
	m.Expect([]Question{{SandboxID: id, Seen: start.Add(time.Minute)}})
	if got := m.Recall(id); !got.AbsentSince.IsZero() {
		t.Errorf("absent since %s", got.AbsentSince)
	}
}

func TestLen(t *testing.T) {
	var m Memory
	m.Observe(at(0, Sandbox{ID: "a"}, Sandbox{ID: "b"}))
	m.Observe(at(1, Sandbox{ID: "b"}))
	if m.Len() != 2 {
		t.Errorf("%d sandboxes are remembered", m.Len())
	}
}
