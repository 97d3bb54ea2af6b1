// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newLease(namespace, name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

var _ = suite.Describe("A Lease of Holdfast", func() {
	leases := map[string]struct{ namespace, name string }{
		"the manager's": {managerNamespace, "holdfast-manager"},
	}
	actors := map[string]struct {
		account account
		refusal string
	}{
		"a tenant with the role edit":      {func() client.Client { return tenant }, byRBAC},
		"Multus with its ClusterRole":      {func() client.Client { return multus }, byRBAC},
		"whereabouts with its ClusterRole": {func() client.Client { return whereabouts }, noOwnLease},
		"flannel with its ClusterRole":     {func() client.Client { return flannel }, byRBAC},
		"the kubelet of another node":      {func() client.Client { return otherKubelet }, byRBAC},
		"a cluster administrator":          {func() client.Client { return user }, noOwnLease},
	}
	for who, actor := range actors {
		It("is written by its owner alone: "+who, func(ctx context.Context) {
			for what, l := range leases {
				lease := newLease(l.namespace, l.name)
				Expect(actor.account().Create(ctx, lease.DeepCopy())).To(refusedAs(leasesPolicy, actor.refusal), what)
				Expect(collector.Create(ctx, lease)).To(Succeed())
				written := lease.DeepCopy()
				written.Spec.HolderIdentity = new("forger")
				Expect(actor.account().Update(ctx, written)).To(refusedAs(leasesPolicy, actor.refusal), what)
				Expect(actor.account().Delete(ctx, lease.DeepCopy())).To(refusedAs(leasesPolicy, actor.refusal), what)
				Expect(collector.Delete(ctx, lease)).To(Succeed())
			}
		}, SpecTimeout(soon))
	}

	It("is written by the manager, and others by everybody", func(ctx context.Context) {
		lease := newLease(managerNamespace, "holdfast-manager")
		Expect(manager.Create(ctx, lease)).To(Succeed())
		lease.Spec.HolderIdentity = new("replica")
		Expect(manager.Update(ctx, lease)).To(Succeed())
		Expect(collector.Delete(ctx, lease)).To(Succeed())
		for _, namespace := range []string{managerNamespace, metav1.NamespaceSystem, corev1.NamespaceNodeLease} {
			other := newLease(namespace, "whereabouts")
			Expect(whereabouts.Create(ctx, other)).To(Succeed())
			Expect(whereabouts.Delete(ctx, other)).To(Succeed())
		}
	}, SpecTimeout(soon))

	It("is written by an administrator who says why", func(ctx context.Context) {
		lease := newLease(managerNamespace, "holdfast-manager")
		lease.Annotations = map[string]string{breakGlass: "INC-1: the leader's machine burnt down"}
		Expect(whereabouts.Create(ctx, lease.DeepCopy())).To(outcome(leasesPolicy, noOwnLease))
		Expect(user.Create(ctx, lease)).To(Succeed())
		Expect(user.Delete(ctx, lease)).To(Succeed())
	}, SpecTimeout(soon))
})
