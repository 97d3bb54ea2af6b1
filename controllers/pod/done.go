// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
)

// donePods are the UIDs that this process has unprotected while its caches may still show them. A UID never comes back, so further events of its
// deletion need no reconcile and no read, unless another record of it was created.
type donePods struct {
	mu sync.Mutex
	// records are the UIDs of the records that were deleted, by pod UID; empty where there was none.
	records map[types.UID]types.UID
}

func newDonePods() *donePods { return &donePods{records: map[types.UID]types.UID{}} }

func (s *donePods) add(uid types.UID, record *v1alpha1.IPAllocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[uid] = ""
	if record != nil {
		s.records[uid] = record.UID
	}
}

// has says whether a cache still shows a UID that is done; once none does, the UID is dropped.
func (s *donePods) has(ctx context.Context, cached client.Reader, uid types.UID) bool {
	s.mu.Lock()
	deleted, done := s.records[uid]
	s.mu.Unlock()
	if !done {
		return false
	}
	if cachedShow(ctx, cached, uid, deleted) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, uid)
	return false
}

func cachedShow(ctx context.Context, cached client.Reader, uid, deleted types.UID) bool {
	var record v1alpha1.IPAllocation
	if err := cached.Get(ctx, types.NamespacedName{Name: string(uid)}, &record); err == nil {
		return record.UID == deleted
	}
	pods, err := index.Pods(ctx, cached, index.PodUID, string(uid))
	return err == nil && len(pods) == 1 && controllerutil.ContainsFinalizer(&pods[0], v1alpha1.Finalizer)
}
