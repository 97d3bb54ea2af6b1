// SPDX-License-Identifier: Apache-2.0

package adversaries_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// story is what happens in one world. Stories are told side by side: most of the time each of them waits.
type story struct {
	name string
	// sizes of the networks that each pod has.
	sizes   []int
	tell    func(context.Context, *world)
	outcome chan error
}

// atOnce is how many stories are told at once: all of them share the one Lease of whereabouts.
const atOnce = 4

// failed is an expectation that failed: it ends its story.
type failed struct{ error }

// begin tells the stories, in their order; their outcomes come later.
func begin(ctx context.Context, stories []*story) {
	GinkgoHelper()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	DeferCleanup(stop)
	next := make(chan *story, len(stories))
	for _, s := range stories {
		s.outcome = make(chan error, 1)
		next <- s
	}
	close(next)
	for range atOnce {
		go func() {
			for s := range next {
				s.outcome <- s.run(running)
			}
		}()
	}
}

func (s *story) run(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			failure, is := r.(failed)
			if !is {
				panic(r)
			}
			err = failure.error
		}
	}()
	s.tell(ctx, newWorld(ctx, NewGomega(func(message string, _ ...int) { panic(failed{errors.New(message)}) }), s.sizes...))
	return nil
}

// expectHappyEnd waits for the outcome.
func (s *story) expectHappyEnd(ctx context.Context) {
	GinkgoHelper()
	var outcome error
	Eventually(ctx, s.outcome).WithTimeout(2 * patience).Should(Receive(&outcome))
	if outcome != nil {
		Fail(outcome.Error())
	}
}
