// SPDX-License-Identifier: Apache-2.0

package finalizer

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// errMayStart: what a CNI ADD gets from now on has no tombstone.
var errMayStart = errors.New("its kubelet has not reported that a sandbox of the pod was ready, nor that the pod terminated: " +
	"an ADD may still get an address for it, and that one is not kept")

// Keep keeps the addresses of a pod that is being deleted from other pods of its name, before a person takes its finalizer off: each entry gets the
// tombstone of the pod's record. It returns those that it has put, and fails where another pod may get an address all the same. Without the type of
// the records there is no record.
func Keep(ctx context.Context, c client.Reader, pools ipam.Backend, pod *corev1.Pod) ([]ipam.Request, error) {
	record := &v1alpha1.IPAllocation{}
	if err := c.Get(ctx, client.ObjectKey{Name: string(pod.UID)}, record); apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		record = nil
	} else if err != nil {
		return nil, fmt.Errorf("reading its record: %w", err)
	}
	kept, err := ipam.Keep(ctx, pools, ipam.PodRef{Namespace: pod.Namespace, Name: pod.Name}, record)
	if facts.MayStart(pod) {
		err = errors.Join(err, errMayStart)
	}
	return kept, err
}
