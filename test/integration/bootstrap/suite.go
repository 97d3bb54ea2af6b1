// SPDX-License-Identifier: Apache-2.0

// Package bootstrap shows that a cluster starts, and heals, with Holdfast installed and no manager alive: everything
// that it registers with the API server is there, as rendered, and every call to it reaches an address that refuses it or
// never responds. Nodes, agents and operators write under identities of their own.
package bootstrap

import (
	"context"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const startTimeout = fixture.StartTimeout

var plane, admin = fixture.Plane, fixture.Admin

var suite = fixture.NewSuite("bootstrap", fixture.PlaneTwo, createAccounts)

// createAccounts makes the identities of the IPAMs, with all rights on the resources that the suite is about.
func createAccounts(ctx context.Context) {
	fixture.CreateNamespace(ctx, apps)
	for _, account := range []string{cniAccount, "operator"} {
		fixture.CreateAccount(ctx, system, account)
	}
	groups := []string{
		nodecrds.NodeNetworkConfigs.Group, nodecrds.NodeInfos.Group, nodecrds.CiliumNodes.Group, nodecrds.CNINodes.Group,
		nodecrds.NodeResourceTopologies.Group, nodecrds.BlockAffinities.Group, nodecrds.HostSubnets.Group, wbv1alpha1.SchemeGroupVersion.Group,
	}
	fixture.Grant(ctx, "ipams", []rbacv1.PolicyRule{{APIGroups: groups, Resources: []string{"*"}, Verbs: []string{"*"}}},
		rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts:" + system})
}
