// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
)

// claimed is a ResourceClaim whose devices are allocated for a node.
func claimed(uid, node string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "net", UID: types.UID(uid)}}
	claim.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}
	return claim
}

// TestAnAddressOfAResourceClaimStaysUntilTheClaimIsGone: the podrefs are those that DRANET's webhook for whereabouts has written, of old and
// of today; no pod of either name is there.
func TestAnAddressOfAResourceClaimStaysUntilTheClaimIsGone(t *testing.T) {
	outsider := authenticationv1.UserInfo{Username: "reconciler"}
	for name, tc := range map[string]struct {
		user    authenticationv1.UserInfo
		claim   *resourcev1.ResourceClaim
		breaks  any
		allowed bool
	}{
		"the claim exists":                          {user: outsider, claim: claimed(claim0, "node-a")},
		"a claim of its name with another UID":      {user: outsider, claim: claimed("another", "node-a"), allowed: true},
		"the claim is gone":                         {user: outsider, allowed: true},
		"claims cannot be listed":                   {user: outsider, breaks: &metav1.PartialObjectMetadataList{}},
		"the claim cannot be read":                  {user: outsider, claim: claimed(claim0, "node-a"), breaks: &resourcev1.ResourceClaim{}},
		"the driver on the claim's node":            {user: cniToken(), claim: claimed(claim0, "node-a"), allowed: true},
		"the driver on another node than the claim": {user: cniToken(), claim: claimed(claim0, "node-b")},
	} {
		for _, podRef := range []string{"default/pod-whereabouts", "apps/consumer-0"} {
			t.Run(name+", "+podRef, func(t *testing.T) {
				c := onNodeA()
				if tc.claim != nil {
					c.objects = append(c.objects, tc.claim)
				}
				if tc.breaks != nil {
					c.fail = map[reflect.Type]error{reflect.TypeOf(tc.breaks): errors.New("the API server does not respond")}
				}
				guard, _ := c.guard(t, configv1alpha1.ReleaseModeDeny)
				response := (&IPPoolReleaseValidator{guard}).Handle(t.Context(), removal(t, tc.user, poolRange, map[string][2]string{"1": {claim0, podRef}}))
				if tc.allowed {
					checkAllowed(t, response)
					return
				}
				checkRefused(t, response)
				if !strings.Contains(response.Result.Message, "ResourceClaim") {
					t.Errorf("the message does not name the owner: %s", response.Result.Message)
				}
			})
		}
	}
}

// TestAReconcilerThatMayShareTheTokenRemovesNothingOfALivePod (whereabouts up to v0.9.3): the tag of the image reports whether it does.
func TestAReconcilerThatMayShareTheTokenRemovesNothingOfALivePod(t *testing.T) {
	for name, tc := range map[string]struct {
		image   string
		setting *bool
		allowed bool
	}{
		"a version without the reconciler":                    {image: "ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.4", allowed: true},
		"the last version with it":                            {image: "ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.3"},
		"a distribution's build of a version with it":         {image: "docker.io/rancher/hardened-whereabouts:v0.9.2-build20250901"},
		"a tag that names no version":                         {image: "ghcr.io/k8snetworkplumbingwg/whereabouts:latest"},
		"a digest":                                            {image: "quay.io/x/whereabouts@sha256:" + sandbox0},
		"a version with it, and the administrator denies it":  {image: "x/whereabouts:v0.9.3", setting: new(false), allowed: true},
		"a version without it, and the administrator says so": {image: "x/whereabouts:v0.9.4", setting: new(true)},
	} {
		t.Run(name, func(t *testing.T) {
			c := onNodeA()
			c.objects[3].(*corev1.Pod).Spec.Containers[0].Image = tc.image
			guard, _ := c.guard(t, configv1alpha1.ReleaseModeDeny)
			guard.options.ReconcilerInDaemonSet = tc.setting
			response := (&IPPoolReleaseValidator{guard}).Handle(t.Context(), removal(t, cniToken(), poolRange, web0))
			if tc.allowed {
				checkAllowed(t, response)
			} else {
				checkRefused(t, response)
			}
		})
	}
	if !whereabouts.New(whereabouts.Options{}).ReconcilerShared(nil) {
		t.Error("a pod without images counts as one without the reconciler")
	}
}
