// SPDX-License-Identifier: Apache-2.0

package releaseguard

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

type verdict uint8

const (
	yes verdict = iota + 1
	no
	undecided
)

// check is the result of one question to the facts. The zero check is none of the three and is treated as undecided.
type check struct {
	verdict verdict
	reason  v1alpha1.Reason
	// text describes what was found.
	text string
}

func conclude(v verdict, reason v1alpha1.Reason, format string, args ...any) check {
	return check{verdict: v, reason: reason, text: fmt.Sprintf(format, args...)}
}

func unknown(what, why string) check {
	return conclude(undecided, v1alpha1.ReasonObservationFailed, "%s could not be read: %s", what, why)
}

// all is yes when every check is yes. One no decides; short of that, one that is undecided.
func all(checks ...check) check { return fold(no, yes, checks) }

// some is yes when one check is yes. Short of that, one that is undecided leaves it undecided.
func some(checks ...check) check { return fold(yes, no, checks) }

// opposite turns yes and no around and keeps what was found.
func opposite(a check) check {
	switch a.verdict {
	case yes:
		a.verdict = no
	case no:
		a.verdict = yes
	case undecided:
	}
	return a
}

// fold returns the first check that decides; else the first that is neither; else the last.
func fold(decides, neutral verdict, checks []check) check {
	first := check{verdict: neutral}
	for _, a := range checks {
		if a.verdict == decides {
			return a
		}
		if first.verdict == neutral {
			first = a
		}
	}
	return first
}
