// SPDX-License-Identifier: Apache-2.0

// Package nodelife has the lifecycle of machines: which machines reported under a Node UID, which Node reports each of them now, since when none does,
// and when a machine counts as gone. The rules are those of docs/decisions/0170:
//
//	R1  lifecycle is per machine, and a machine is gone only if every GuardedNode that names it says so for the whole delay
//	R3  the delay counts from the later of gone.since and the start of the gapless observation of Nodes
//	R8  a GuardedNode says which other Node reports its machine
//	R10 a machine that a record has under a Node UID is in the GuardedNode of that UID
package nodelife

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RoundUp rounds a time up to whole seconds, so that a persisted time never shortens a delay.
func RoundUp(t time.Time) metav1.Time {
	if whole := t.Truncate(time.Second); !whole.Equal(t) {
		t = whole.Add(time.Second)
	}
	return metav1.NewTime(t)
}
