// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// claims reads the ResourceClaims by UID where one of the entries belongs to a claim. What cannot be read is unknown, and the rest stands.
func (c *Cluster) claims(ctx context.Context, entries []ipam.Entry) release.Fact[map[types.UID]string] {
	ofClaim := func(e ipam.Entry) bool { return ownership.KindOf(e.SandboxID) == ownership.KindResourceClaim }
	if !slices.ContainsFunc(entries, ofClaim) {
		return release.Absent[map[types.UID]string]()
	}
	names := map[types.UID]string{}
	all := pages.Metadata(ctx, c.Client, resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"))
	err := walk(ctx, c, "resourceclaims.resource.k8s.io", all, func(list *metav1.PartialObjectMetadataList) {
		for i := range list.Items {
			names[list.Items[i].UID] = client.ObjectKeyFromObject(&list.Items[i]).String()
		}
	})
	if err != nil {
		return release.Unknown[map[types.UID]string](err.Error())
	}
	return release.Known(names)
}
