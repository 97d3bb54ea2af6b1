// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

// BenchmarkQueries lists a runtime for 250 queries on as many sandboxes that are not ready: "list" as the agent does, and "bare" with one list of
// sandboxes and the status call of each, over the same socket.
func BenchmarkQueries(b *testing.B) {
	const queries = 250
	s := &server{name: "containerd", info: map[string]string{}}
	queried := sandbox.Queried{IDs: sets.New[string]()}
	for i := range queries {
		id := fmt.Sprintf("%064d", i)
		s.sandboxes = append(s.sandboxes, listedSandbox(id, notReady))
		s.info[id] = closed
		queried.IDs.Insert(id)
	}
	path := socket(b)
	serve(b, s, path)
	r := newRuntime(b, path)
	service, _, err := r.connect(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("list", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.verbose = s.verbose[:0]
			listing, err := r.List(b.Context(), queried)
			if err != nil || len(listing.Sandboxes) != queries || len(s.verbose) != queries {
				b.Fatalf("%d sandboxes, %d statuses read, error %v", len(listing.Sandboxes), len(s.verbose), err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.verbose = s.verbose[:0]
			sandboxes, err := service.ListPodSandbox(b.Context(), nil)
			if err != nil {
				b.Fatal(err)
			}
			var calls errgroup.Group
			calls.SetLimit(networkCalls)
			for _, found := range sandboxes {
				calls.Go(func() error {
					_, err := service.PodSandboxStatus(b.Context(), found.Id, true)
					return err
				})
			}
			if err := calls.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
