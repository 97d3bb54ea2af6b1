// SPDX-License-Identifier: Apache-2.0

package ipamaudit

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

// What a namespace has reserved without an entry is part of its bound, also where a partial audit saw it come or go.
func TestTheBoundFollowsPartialResults(t *testing.T) {
	whole := Facts{ForRepair: true, Pods: []Pod{claiming("tenant", "web", map[string]int{"shared": 1}, free("shared", 1))}}
	var reserved Facts
	scope := Scope{PodRefs: sets.New[string]()}
	for i := range ClaimsPerNamespace {
		ref := fmt.Sprint("tenant/gone-", i)
		reserved.Reservations = append(reserved.Reservations, Reservation{Name: fmt.Sprint("ks/r", i), PodRef: ref})
		scope.PodRefs.Insert(ref)
	}
	before := Examine(whole)
	with := before.With(Examine(reserved), scope)
	without := with.With(Examine(Facts{}), scope)
	for name, tc := range map[string]struct {
		result Result
		want   int
	}{"before": {before, 1}, "with reservations": {with, 0}, "without them": {without, 1}} {
		if got := len(missing(tc.result.Bounded())); got != tc.want {
			t.Errorf("%s: %d claims count, want %d", name, got, tc.want)
		}
	}
}
