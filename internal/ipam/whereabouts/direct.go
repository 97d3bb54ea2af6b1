// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/pages"
)

// OpenDirect is a backend for a command that has no manager: it holds every IPPool of every namespace as it was at the time of the
// call, read in pages, and reads from the API server everything that has to be live. Where the client finds no IPPools among what is
// served it gives that error (meta.IsNoMatchError), with a backend that holds none.
// The client is uncached and has whereabouts' types in its scheme (AddToScheme); visit is called after each page with the number of pools read.
func OpenDirect(ctx context.Context, c client.Client, visit func(pools int)) (ipam.Auditable, error) {
	b := New(Options{})
	b.reader, b.writer = c, c
	namespaces := sets.New(b.options.Namespaces...)
	read := 0
	for list, err := range pages.Of[wb.IPPoolList](ctx, c) {
		if err != nil {
			return b, fmt.Errorf("listing the IPPools of all namespaces: %w", err)
		}
		for i := range list.Items {
			b.index.apply(&list.Items[i], b.options.Clock.Now())
			namespaces.Insert(list.Items[i].Namespace)
		}
		read += len(list.Items)
		visit(read)
	}
	b.options.Namespaces = sets.List(namespaces)
	return b, nil
}

// ReadAll reads the entries of every IPPool in every namespace, live, for a command that has no cache. Where IPPools are not
// served there are none. The client is as for OpenDirect.
func ReadAll(ctx context.Context, c client.Client) (ipam.Snapshot, error) {
	b, err := OpenDirect(ctx, c, func(int) {})
	if err != nil && !meta.IsNoMatchError(err) {
		return ipam.Snapshot{}, err
	}
	return b.All(), nil
}
