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

// answer is what the facts say to one question. The zero answer is none of the three and is treated as undecided.
type answer struct {
	verdict verdict
	reason  v1alpha1.Reason
	// text says what was found.
	text string
}

func say(v verdict, reason v1alpha1.Reason, format string, args ...any) answer {
	return answer{verdict: v, reason: reason, text: fmt.Sprintf(format, args...)}
}

func unknown(what, why string) answer {
	return say(undecided, v1alpha1.ReasonObservationFailed, "%s could not be read: %s", what, why)
}

// all is yes when every answer is yes. One no decides; short of that, one that is undecided.
func all(answers ...answer) answer { return fold(no, yes, answers) }

// some is yes when one answer is yes. Short of that, one that is undecided leaves it undecided.
func some(answers ...answer) answer { return fold(yes, no, answers) }

// opposite turns yes and no around and keeps what was found.
func opposite(a answer) answer {
	switch a.verdict {
	case yes:
		a.verdict = no
	case no:
		a.verdict = yes
	case undecided:
	}
	return a
}

// fold returns the first answer that decides; else the first that is neither; else the last.
func fold(decides, neutral verdict, answers []answer) answer {
	result := answer{verdict: neutral}
	for _, a := range answers {
		if a.verdict == decides {
			return a
		}
		if result.verdict == neutral {
			result = a
		}
	}
	return result
}
