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
// deletion need no reconcile and no read.
type donePods struct {
	mu   sync.Mutex
	uids map[types.UID]struct{}
}

func newDonePods() *donePods { return &donePods{uids: map[types.UID]struct{}{}} }

func (s *donePods) add(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uids[uid] = struct{}{}
}

// has says whether a cache still shows a UID that is done; once none does, the UID is dropped.
func (s *donePods) has(ctx context.Context, cached client.Reader, uid types.UID) bool {
	s.mu.Lock()
	_, done := s.uids[uid]
	s.mu.Unlock()
	if !done {
		return false
	}
	if cachedShow(ctx, cached, uid) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uids, uid)
	return false
}

func cachedShow(ctx context.Context, cached client.Reader, uid types.UID) bool {
	if cached.Get(ctx, types.NamespacedName{Name: string(uid)}, &v1alpha1.IPAllocation{}) == nil {
		return true
	}
	pods, err := index.Pods(ctx, cached, index.PodUID, string(uid))
	return err == nil && len(pods) == 1 && controllerutil.ContainsFinalizer(&pods[0], v1alpha1.Finalizer)
}
