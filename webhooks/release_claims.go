// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/releaseguard"
)

// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaims,verbs=get;list

// readClaims looks for the ResourceClaims that entries name by UID, live. A claim has no index by UID, so their metadata is listed; that is
// done for entries of claims alone.
func (v *IPPoolReleaseValidator) readClaims(ctx context.Context, write *releaseguard.Write) {
	uids := sets.New[types.UID]()
	for i := range write.Cases {
		if id := write.Cases[i].SandboxID; ownership.KindOf(id) == ownership.KindResourceClaim {
			uids.Insert(types.UID(id))
		}
	}
	if uids.Len() == 0 {
		return
	}
	names, err := v.claimNames(ctx, uids)
	for i := range write.Cases {
		uid := types.UID(write.Cases[i].SandboxID)
		name, exists := names[uid]
		switch {
		case !uids.Has(uid):
		case err != nil: // also where the API is not served: then the object of the UID is unknown
			write.Cases[i].Claim = release.Unknown[releaseguard.Claim](err.Error())
		case !exists:
			write.Cases[i].Claim = release.Absent[releaseguard.Claim]()
		default:
			write.Cases[i].Claim = v.claim(ctx, name, uid)
		}
	}
}

func (v *IPPoolReleaseValidator) claimNames(ctx context.Context, uids sets.Set[types.UID]) (map[types.UID]types.NamespacedName, error) {
	found := map[types.UID]types.NamespacedName{}
	for claims, err := range pages.Metadata(ctx, v.reader, resourcev1.SchemeGroupVersion.WithKind("ResourceClaim")) {
		if err != nil {
			return nil, err
		}
		for i := range claims.Items {
			if uids.Has(claims.Items[i].UID) {
				found[claims.Items[i].UID] = client.ObjectKeyFromObject(&claims.Items[i])
			}
		}
	}
	return found, nil
}

func (v *IPPoolReleaseValidator) claim(ctx context.Context, name types.NamespacedName, uid types.UID) release.Fact[releaseguard.Claim] {
	claim := readLive[resourcev1.ResourceClaim](ctx, v.reader, name)
	switch {
	case claim.IsUnknown():
		return release.Unknown[releaseguard.Claim](claim.Why())
	case claim.IsAbsent() || claim.Get().UID != uid:
		return release.Absent[releaseguard.Claim]()
	}
	return release.Known(releaseguard.Claim{Name: name.String(), NodeName: nodeOfClaim(new(claim.Get()))})
}

// nodeOfClaim is the one node for which a claim's devices are allocated.
func nodeOfClaim(claim *resourcev1.ResourceClaim) string {
	allocation := claim.Status.Allocation
	if allocation == nil || allocation.NodeSelector == nil || len(allocation.NodeSelector.NodeSelectorTerms) != 1 {
		return ""
	}
	fields := allocation.NodeSelector.NodeSelectorTerms[0].MatchFields
	at := slices.IndexFunc(fields, isNodeName)
	if at < 0 {
		return ""
	}
	return fields[at].Values[0]
}

func isNodeName(r corev1.NodeSelectorRequirement) bool {
	return r.Key == metav1.ObjectNameField && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1
}
