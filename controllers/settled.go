// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// settledPods are the UIDs whose record this process has deleted while its cache may still show it. A UID never comes back,
// so the events that its own end causes need no second look, and no second read of the API server.
type settledPods struct {
	mu      sync.Mutex
	records map[types.UID]types.UID
}

func newSettledPods() *settledPods { return &settledPods{records: map[types.UID]types.UID{}} }

func (s *settledPods) add(uid types.UID, record *v1alpha1.IPAllocation) {
	if record == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[uid] = record.UID
}

// has says whether the cache still shows the very record that was deleted; once it does not, the UID is forgotten.
func (s *settledPods) has(ctx context.Context, cached client.Reader, uid types.UID) bool {
	s.mu.Lock()
	deleted, settled := s.records[uid]
	s.mu.Unlock()
	if !settled {
		return false
	}
	var record v1alpha1.IPAllocation
	if err := cached.Get(ctx, types.NamespacedName{Name: string(uid)}, &record); err == nil && record.UID == deleted {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, uid)
	return false
}
