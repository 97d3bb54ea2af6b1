// SPDX-License-Identifier: Apache-2.0

package nodesweep_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

// roleIn is the ClusterRole that a message asks for.
func roleIn(message string) *rbacv1.ClusterRole {
	GinkgoHelper()
	_, text, found := strings.Cut(message, "ClusterRole: ")
	Expect(found).To(BeTrue(), message)
	role := &rbacv1.ClusterRole{}
	Expect(yaml.UnmarshalStrict([]byte(text), role)).To(Succeed(), text)
	role.Labels[specRole] = "true"
	return role
}

// inPagesOfTwo makes every list of the resource one of pages of two objects.
func inPagesOfTwo(request *http.Request, resource schema.GroupVersionResource) (continued bool) {
	if !isList(request, resource) {
		return false
	}
	query := request.URL.Query()
	query.Set("limit", "2")
	request.URL.RawQuery = query.Encode()
	return query.Get("continue") != ""
}

var _ = Describe("Reading", func() {
	It("says which ClusterRole it lacks, and goes on once it is there", secondpass.Exempt("it watches a condition that a list that fails changes"), func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		object := create(ctx, nodecrds.CNINode(node.Name, deadUID))
		p := create(ctx, policy(nodecrds.CNINodes))
		s := startSweeper(ctx, sweepsOften)
		role := roleIn(expectNotSwept(ctx, p.Name, v1alpha1.ReasonSweepForbidden))
		Expect(role.Rules).To(Equal([]rbacv1.PolicyRule{{
			APIGroups: []string{nodecrds.CNINodes.Group}, Resources: []string{nodecrds.CNINodes.Resource}, Verbs: []string{"get", "list"}}}))
		Expect(livePolicy(ctx, Default, p.Name).Status.Sweep).To(BeNil())
		Eventually(gauge("holdfast_node_sweeps_total", p.Name, "result", string(v1alpha1.ReasonSweepForbidden))).Should(BeNumerically(">=", 1))

		create(ctx, role)
		expectSwept(ctx, p.Name, counts{Objects: 1, Stale: 1})

		// Now it is to delete, which it may not.
		change(ctx, p.Name, deleting)
		role = roleIn(expectNotSwept(ctx, p.Name, v1alpha1.ReasonSweepForbidden))
		Expect(role.Rules[0].Verbs).To(Equal([]string{"get", "list", "delete"}))
		Expect(livePolicy(ctx, Default, p.Name).Status.Sweep.Stale).To(Equal(int64(1)), "it can still read")
		Consistently(func(g Gomega) string { return swept(ctx, g, p.Name).Reason }).Should(Equal(string(v1alpha1.ReasonSweepForbidden)))

		Expect(admin.Update(ctx, role)).To(Succeed())
		Eventually(func() (bool, error) {
			s.pass(time.Second) // what was refused took tokens of the rate limit too
			return gone(ctx, object)()
		}).WithContext(ctx).Should(BeTrue())
		expectSwept(ctx, p.Name, counts{})
	}, SpecTimeout(specTimeout))

	It("keeps the counts of the last complete sweep when a page cannot be read", func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		for _, namespace := range []string{"default", managerNamespace, metav1.NamespaceSystem} {
			object := nodecrds.NodeNetworkConfig(node.Name, deadUID)
			object.SetNamespace(namespace)
			create(ctx, object)
		}
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs))
		s := startSweeper(ctx, sweepsOften)
		expectSwept(ctx, p.Name, counts{Objects: 3, Stale: 3})

		s.when(func(request *http.Request) *http.Response {
			if inPagesOfTwo(request, nodecrds.NodeNetworkConfigs) {
				return answer(request, http.StatusInternalServerError, metav1.StatusReasonInternalError, "page lost")
			}
			return nil
		})
		Eventually(func(g Gomega) string { return swept(ctx, g, p.Name).Message }).WithContext(ctx).Should(ContainSubstring("page lost"))
		expectNotSwept(ctx, p.Name, v1alpha1.ReasonSweepFailed)
		failed := gauge("holdfast_node_sweeps_total", p.Name, "result", string(v1alpha1.ReasonSweepFailed))
		Eventually(failed).Should(BeNumerically(">=", 2))
		Expect(livePolicy(ctx, Default, p.Name).Status.Sweep.Stale).To(Equal(int64(3)))
		Expect(gauge("holdfast_node_objects", p.Name, "state", "stale")(Default)).To(Equal(3.0))

		s.when(func(request *http.Request) *http.Response {
			inPagesOfTwo(request, nodecrds.NodeNetworkConfigs)
			return nil
		})
		expectSwept(ctx, p.Name, counts{Objects: 3, Stale: 3})
	}, SpecTimeout(specTimeout))

	It("begins anew when the API server has forgotten where it was, and counts nothing twice", func(ctx context.Context) {
		node := createNode(ctx, named("node"))
		for _, namespace := range []string{"default", managerNamespace, metav1.NamespaceSystem} {
			object := nodecrds.NodeNetworkConfig(node.Name, node.UID)
			object.SetNamespace(namespace)
			create(ctx, object)
		}
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs))
		var expired atomic.Int64
		startSweeper(ctx, nil, func(request *http.Request) *http.Response {
			if inPagesOfTwo(request, nodecrds.NodeNetworkConfigs) && expired.Add(1) == 1 {
				return answer(request, http.StatusGone, metav1.StatusReasonExpired, "the continue token has expired")
			}
			return nil
		})
		expectSwept(ctx, p.Name, counts{Objects: 3})
		if secondpass.On() { // a list that fails begins anew, too
			Expect(expired.Load()).To(BeNumerically(">=", 2))
		} else {
			Expect(expired.Load()).To(Equal(int64(2)))
		}
	}, SpecTimeout(specTimeout))

	It("waits for a resource that is not served", func(ctx context.Context) {
		p := create(ctx, policy(nodecrds.NodeNetworkConfigs, func(s *v1alpha1.NodeResourcePolicySpec) {
			s.Resource.Versions = []string{"v7"}
		}))
		startSweeper(ctx, sweepsOften)
		Expect(expectNotSwept(ctx, p.Name, v1alpha1.ReasonResourceNotServed)).To(ContainSubstring("nodenetworkconfigs.acn.azure.com in version v7"))
		change(ctx, p.Name, func(s *v1alpha1.NodeResourcePolicySpec) { s.Resource.Versions = []string{"v7", "v1alpha"} })
		expectSwept(ctx, p.Name, counts{})
	}, SpecTimeout(specTimeout))
})
