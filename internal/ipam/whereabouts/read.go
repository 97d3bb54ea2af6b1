// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/pages"
)

// ReadAll reads the entries of every IPPool in every namespace, live, for a command that has no cache. Where IPPools are not
// served there are none. The reader needs whereabouts' types in its scheme (AddToScheme).
func ReadAll(ctx context.Context, reader client.Reader) (ipam.Snapshot, error) {
	x := newIndex()
	for list, err := range pages.Of[wb.IPPoolList](ctx, reader) {
		if meta.IsNoMatchError(err) {
			return ipam.Snapshot{}, nil
		}
		if err != nil {
			return ipam.Snapshot{}, fmt.Errorf("listing the IPPools of all namespaces: %w", err)
		}
		for i := range list.Items {
			x.apply(&list.Items[i], time.Time{})
		}
	}
	return x.all(), nil
}
