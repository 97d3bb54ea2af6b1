// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Kind is one way for a call to fail.
type Kind string

// The kinds. Those before ResetBefore are answers with a Status, as the API server gives them.
const (
	// None lets the call through.
	None Kind = ""
	// Conflict is 409 with reason Conflict; for writes only.
	Conflict Kind = "409 Conflict"
	// Invalid is 422; for writes only. For a JSON patch it is what a failed test looks like.
	Invalid Kind = "422 Invalid"
	// TooManyRequests is 429 with Retry-After, as API Priority and Fairness gives it. client-go waits and tries again by itself.
	TooManyRequests Kind = "429 TooManyRequests"
	// InternalError is 500.
	InternalError Kind = "500 InternalError"
	// ResetBefore breaks the connection before the call is sent: the server never sees it.
	ResetBefore Kind = "reset before the call"
	// ResetAfter breaks the connection after the server has carried the call out: the answer is lost.
	ResetAfter Kind = "reset after the call"
	// TimeoutAfter lets the call time out, at once, after the server has carried it out: the answer is lost.
	TimeoutAfter Kind = "time-out after the call"
)

// Kinds are all that a call can be given: answers of 409 and 422 make no sense for a call that writes nothing, and a watch
// that was opened and lost is one that was never opened.
func Kinds(c Call) []Kind {
	switch {
	case c.IsWrite():
		return []Kind{Conflict, Invalid, TooManyRequests, InternalError, ResetBefore, ResetAfter, TimeoutAfter}
	case c.Verb == "watch":
		return []Kind{TooManyRequests, InternalError, ResetBefore}
	default:
		return []Kind{TooManyRequests, InternalError, ResetBefore, TimeoutAfter}
	}
}

// Injection is a fault that was given to a call.
type Injection struct {
	Call Call
	Kind Kind
}

// String is for a report.
func (i Injection) String() string { return i.Call.String() + ": " + string(i.Kind) }

// Faults fails calls. The zero value lets everything through; its methods are safe for concurrent use.
type Faults struct {
	// Choose says what happens to a call. It may be called concurrently. See Randomly.
	Choose func(Call) Kind
	// RetryAfter is what a TooManyRequests asks for, in whole seconds; less than one is at once. Default: 1s, as the API server has it.
	RetryAfter time.Duration

	mu       sync.Mutex
	calls    int
	injected []Injection
}

// Wrap is for rest.Config.Wrap. One Faults may wrap several transports.
func (f *Faults) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		call := CallOf(r)
		kind := f.choose(call)
		switch kind {
		case None:
			return next.RoundTrip(r)
		case ResetBefore:
			closeBody(r)
			return nil, errReset()
		case ResetAfter, TimeoutAfter:
			return nil, carryOut(next, r, kind)
		default:
			closeBody(r)
			return answer(r, call, kind, f.retryAfter()), nil
		}
	})
}

func (f *Faults) choose(call Call) Kind {
	kind := None
	if f.Choose != nil {
		kind = f.Choose(call)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if kind != None {
		f.injected = append(f.injected, Injection{call, kind})
	}
	return kind
}

func (f *Faults) retryAfter() time.Duration {
	if f.RetryAfter == 0 {
		return time.Second
	}
	return f.RetryAfter
}

// Injected are the faults so far, in the order of their calls.
func (f *Faults) Injected() []Injection {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.injected)
}

// Calls is how many calls there were so far, failed or not.
func (f *Faults) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// carryOut sends the request, throws the answer away and says how the connection broke. A connection that broke by itself
// keeps its own error.
func carryOut(next http.RoundTripper, r *http.Request, kind Kind) error {
	response, err := next.RoundTrip(r)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if kind == TimeoutAfter {
		return errTimeout{}
	}
	return errReset()
}

// Randomly fails a share of the calls, from 0 to 1, in one of the ways that fit the call. Calls for which applies is false
// are let through; nil is all.
//
// The nth call of one kind (verb and path, UIDs aside) meets the same fate in every run with the same seed, whatever other
// calls come in between.
func Randomly(seed uint64, rate float64, applies func(Call) bool) func(Call) Kind {
	var mu sync.Mutex
	seen := map[string]uint64{}
	return func(c Call) Kind {
		if applies != nil && !applies(c) {
			return None
		}
		mu.Lock()
		pattern := c.pattern()
		n := seen[pattern]
		seen[pattern]++
		mu.Unlock()
		hash := fnv.New64a()
		fmt.Fprintf(hash, "%s#%d", pattern, n)
		random := rand.New(rand.NewPCG(seed, hash.Sum64()))
		if random.Float64() >= rate {
			return None
		}
		kinds := Kinds(c)
		return kinds[random.IntN(len(kinds))]
	}
}
