// SPDX-License-Identifier: Apache-2.0

package nodewait_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	gomegatypes "github.com/onsi/gomega/types"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// says matches a line on standard error that goes on from here, word for word.
func says(text string) gomegatypes.GomegaMatcher { return gbytes.Say(regexp.QuoteMeta(text)) }

// waitsFor waits for the line. The context goes apart from the buffer, which Gomega would print, while it is written, to find
// out whether it is a duration.
func waitsFor(ctx context.Context, s *gexec.Session, text string) {
	GinkgoHelper()
	Eventually(s.Err).WithContext(ctx).Should(says(text))
	Expect(s.ExitCode()).To(Equal(-1), "it runs on")
}

func ends(ctx context.Context, s *gexec.Session, code int) {
	GinkgoHelper()
	Eventually(s).WithContext(ctx).Should(gexec.Exit(code))
}

func carries(m machine, kind, namespace string, found, live types.UID) string {
	return kind + " " + namespace + m.name + " carries Node UID " + string(found) + ", the live Node " + m.name + " has " + string(live)
}

var _ = Describe("The wait for a node's resource", func() {
	var m machine
	byPolicy := []string{"--policy", required, "--namespace", system}

	BeforeEach(func() { m = newMachine() })

	It("S2: keeps the agent of a replaced machine from what the machine before left, until its own is there", func(ctx context.Context) {
		old := m.register(ctx)
		before := m.config(old, dncFinalizer)
		create(ctx, before)
		m.remove(ctx)
		live := m.register(ctx)

		s := m.start(ctx, agent, byPolicy...)
		waitsFor(ctx, s, carries(m, "NodeNetworkConfig", system+"/", old, live))
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(before), before)).To(Succeed())
			g.Expect(before.GetDeletionTimestamp()).NotTo(BeNil(), "the garbage collector deletes it")
		}).Should(Succeed())
		waitsFor(ctx, s, "; it is being deleted; held by finalizers "+dncFinalizer+"; time-out in ")
		dropFinalizers(ctx, before)
		waitsFor(ctx, s, "there is no NodeNetworkConfig "+system+"/"+m.name)
		create(ctx, m.config(live))
		ends(ctx, s, 0)
		Expect(s.Out).To(says("NodeNetworkConfig " + system + "/" + m.name + ": UID " + string(live) + " of the live Node " + m.name))
	})

	It("is ready at once where all is right, and says nothing else", func(ctx context.Context) {
		create(ctx, m.config(m.register(ctx)))
		for _, args := range [][]string{byPolicy, {"--resource", "nodenetworkconfigs.v1alpha.acn.azure.com", "--namespace", system},
			{"--resource", "nodenetworkconfigs.acn.azure.com", "--namespace", system, "--if-missing", "proceed", "--timeout", "0"}} {
			s := m.start(ctx, agent, args...)
			ends(ctx, s, 0)
			Expect(s.Out.Contents()).To(MatchRegexp(`^ready after \d+s: NodeNetworkConfig [^\n]*\n$`))
			Expect(s.Err.Contents()).To(BeEmpty())
		}
	})

	It("sees a Node that is replaced while it waits", func(ctx context.Context) {
		old := m.register(ctx)
		s := m.start(ctx, agent, byPolicy...)
		waitsFor(ctx, s, "there is no NodeNetworkConfig")
		m.remove(ctx)
		waitsFor(ctx, s, "there is no Node "+m.name)
		live := m.register(ctx)
		create(ctx, m.config(old, dncFinalizer))
		waitsFor(ctx, s, carries(m, "NodeNetworkConfig", system+"/", old, live))
		patch(ctx, m.config(old), `{"metadata":{"finalizers":null,"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":%q,"uid":%q}]}}`, m.name, live)
		if err := admin.Get(ctx, client.ObjectKeyFromObject(m.config(live)), m.config(live)); err != nil { // the garbage collector was faster
			create(ctx, m.config(live))
		}
		ends(ctx, s, 0)
	})

	It("does not proceed on a Node that is being deleted", func(ctx context.Context) {
		live := m.register(ctx)
		node := thing(schema.GroupVersionKind{Version: "v1", Kind: "Node"}, "", m.name)
		patch(ctx, node, `{"metadata":{"finalizers":["example.com/hold"]}}`)
		create(ctx, m.config(live))
		m.remove(ctx)
		s := m.start(ctx, agent, byPolicy...)
		waitsFor(ctx, s, "Node "+m.name+" (UID "+string(live)+") is being deleted; held by finalizers example.com/hold")
		dropFinalizers(ctx, node)
		waitsFor(ctx, s, "there is no Node "+m.name)
		s.Terminate()
		ends(ctx, s, 4)
	})

	It("lets an agent go on that creates its object, once its Node is there", func(ctx context.Context) {
		s := m.start(ctx, agent, append([]string{"--if-missing", "proceed"}, byPolicy...)...)
		waitsFor(ctx, s, "there is no Node "+m.name)
		m.register(ctx)
		ends(ctx, s, 0)
		Expect(s.Out).To(says("there is no NodeNetworkConfig " + system + "/" + m.name + ", and it is not waited for (--if-missing=proceed)"))
	})

	It("I5: does not take a resource that is not served any more for an object that is not there", func(ctx context.Context) {
		name := "passingthings.example.com"
		serve := func() {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			Expect(admin.Get(ctx, client.ObjectKey{Name: "nodeprefixes.example.com"}, crd)).To(Succeed())
			crd.ObjectMeta = metav1.ObjectMeta{Name: name}
			crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: "PassingThing", ListKind: "PassingThingList", Plural: "passingthings", Singular: "passingthing"}
			create(ctx, crd)
		}
		serve()
		s := m.start(ctx, agent, "--resource", name, "--namespace", system, "--if-missing", "proceed")
		waitsFor(ctx, s, "there is no Node "+m.name)
		Expect(admin.Delete(ctx, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
		waitsFor(ctx, s, "the API server serves no "+name)
		m.register(ctx)
		Expect(s.ExitCode()).To(Equal(-1), "it runs on")
		serve()
		ends(ctx, s, 0)
	})

	It("says which permission is missing, and goes on when it is there", func(ctx context.Context) {
		create(ctx, m.config(m.register(ctx)))
		name := "new-" + m.name
		account(ctx, name)
		s := m.start(ctx, name, byPolicy...)
		user := "system:serviceaccount:" + system + ":" + name
		waitsFor(ctx, s, `this account may not get noderesourcepolicies.holdfast.dev "`+required+`": `)
		waitsFor(ctx, s, `User "`+user+`" cannot get resource`)
		rules := permissions("get")
		grant(ctx, name, rules[1])
		waitsFor(ctx, s, `this account may not get nodenetworkconfigs.acn.azure.com "`+m.name+`" in namespace `+system+`: `)
		grant(ctx, name, rules[2], rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}})
		ends(ctx, s, 0)
		Expect(s.Err.Contents()).To(ContainSubstring(`note: this account may not watch nodes "` + m.name + `"`))
	})

	It("gives up when the time is over, with what was missing and what to do", func(ctx context.Context) {
		live := m.register(ctx)
		create(ctx, m.config("1111", dncFinalizer))
		s := m.start(ctx, agent, append([]string{"--timeout", "5s"}, byPolicy...)...)
		ends(ctx, s, 3)
		Expect(s.Err).To(says("error: gave up after 5s: " + carries(m, "NodeNetworkConfig", system+"/", "1111", live)))
		Expect(s.Err).To(gbytes.Say(`(Whoever owns it|Look at the controllers that these finalizers belong to)`))
		Expect(s.Out.Contents()).To(BeEmpty())
		dropFinalizers(ctx, m.config("1111"))
	})

	It("ends quietly with a code of its own when it is stopped", func(ctx context.Context) {
		s := m.start(ctx, agent, byPolicy...)
		waitsFor(ctx, s, "there is no Node "+m.name)
		s.Terminate()
		ends(ctx, s, 4)
		Expect(s.Err.Contents()).NotTo(ContainSubstring("error"))
	})

	It("I5: outlives an API server that stops", func(ctx context.Context) {
		live := m.register(ctx)
		s := m.start(ctx, agent, append([]string{"--if-missing", "wait"}, byPolicy...)...)
		waitsFor(ctx, s, "there is no NodeNetworkConfig")
		Expect(plane.StopAPIServer()).To(Succeed())
		waitsFor(ctx, s, "connection refused")
		Expect(plane.StartAPIServer(ctx)).To(Succeed())
		create(ctx, m.config(live))
		ends(ctx, s, 0)
	}, NodeTimeout(startTimeout))

	It("compares the machine where its ID is given", func(ctx context.Context) {
		create(ctx, m.config(m.register(ctx)))
		file := filepath.Join(GinkgoT().TempDir(), "machine-id")
		Expect(os.WriteFile(file, []byte("4c4c4544\n"), 0o600)).To(Succeed())
		s := m.start(ctx, agent, append([]string{"--machine-id-file", file}, byPolicy...)...)
		waitsFor(ctx, s, "shows no machine ID yet")
		m.showMachineID(ctx, "deadbeef")
		waitsFor(ctx, s, "shows machine deadbeef, this machine is 4c4c4544")
		m.showMachineID(ctx, "4c4c4544")
		ends(ctx, s, 0)
	})

	DescribeTable("reads the UID from an annotation", func(ctx context.Context, args ...string) {
		live := m.register(ctx)
		subnet := thing(subnetKind, "", m.name)
		create(ctx, subnet)
		s := m.start(ctx, agent, args...)
		waitsFor(ctx, s, "HostSubnet "+m.name+" carries no Node UID (no annotation "+nodeUIDAnnotation+")")
		patch(ctx, subnet, `{"metadata":{"annotations":{%q:"1111"}}}`, nodeUIDAnnotation)
		waitsFor(ctx, s, carries(m, "HostSubnet", "", "1111", live))
		patch(ctx, subnet, `{"metadata":{"annotations":{%q:%q}}}`, nodeUIDAnnotation, live)
		ends(ctx, s, 0)
	},
		Entry("of the policy", "--policy", annotated),
		Entry("of the command line", "--resource", "hostsubnets.network.openshift.io", "--uid-annotation", nodeUIDAnnotation),
	)

	It("says that a policy accepts an object without a UID", func(ctx context.Context) {
		m.register(ctx)
		create(ctx, thing(configKind, system, m.name))
		s := m.start(ctx, agent, "--policy", optional, "--namespace", system)
		ends(ctx, s, 0)
		Expect(s.Out).To(says("no Node UID, which NodeResourcePolicy " + optional + " accepts (presence IfPresent)"))
	})

	It("refuses a namespace for a cluster-scoped resource", func(ctx context.Context) {
		s := m.start(ctx, agent, "--policy", annotated, "--namespace", system)
		ends(ctx, s, 1)
		Expect(s.Err).To(says("error: --namespace is " + system + ", but hostsubnets.network.openshift.io are cluster-scoped: leave it out"))
	})

	DescribeTable("finds every object of the node", func(ctx context.Context, args []string, two func(machine) [2]*unstructured.Unstructured) {
		live := m.register(ctx)
		other := newMachine()
		own, foreign := two(m), two(other)
		for i, o := range own {
			o.SetName(m.name + "-" + string(rune('a'+i)))
			o.SetFinalizers([]string{"example.com/hold"})
			o.SetOwnerReferences(m.config("1111").GetOwnerReferences())
		}
		own[0].SetOwnerReferences(m.config(live).GetOwnerReferences())
		foreign[0].SetName(other.name)
		create(ctx, own[0], own[1], foreign[0])
		s := m.start(ctx, lister, args...)
		waitsFor(ctx, s, own[1].GetName()+" carries Node UID 1111, the live Node "+m.name+" has "+string(live))
		Expect(s.Err.Contents()).NotTo(ContainSubstring("and 1 more"))

		Expect(client.IgnoreNotFound(admin.Delete(ctx, own[1]))).To(Succeed())
		waitsFor(ctx, s, "; it is being deleted; held by finalizers example.com/hold")
		dropFinalizers(ctx, own[1])
		ends(ctx, s, 0)
		Expect(s.Out).To(says(own[0].GetName() + ": UID " + string(live)))
		dropFinalizers(ctx, own[0])
	},
		Entry("by a field", []string{"--policy", unselectable}, func(m machine) [2]*unstructured.Unstructured { return pair(affinityKind, "", "node", m.name) }),
		Entry("by a field that the API server selects by", []string{"--policy", selectable},
			func(m machine) [2]*unstructured.Unstructured { return pair(prefixKind, system, "nodeName", m.name) }),
		Entry("by an expression", []string{"--policy", expression},
			func(m machine) [2]*unstructured.Unstructured { return pair(affinityKind, "", "node", "host:"+m.name) }),
	)

	It("finds the object in whatever namespace it is", func(ctx context.Context) {
		live := m.register(ctx)
		s := m.start(ctx, lister, "--policy", required)
		waitsFor(ctx, s, "there is no NodeNetworkConfig "+m.name)
		create(ctx, m.config(live))
		ends(ctx, s, 0)
		Expect(s.Out).To(says("NodeNetworkConfig " + system + "/" + m.name))
	})
})

// pair is two objects with the node's name in a field of their spec.
func pair(kind schema.GroupVersionKind, namespace, path, value string) [2]*unstructured.Unstructured {
	var two [2]*unstructured.Unstructured
	for i := range two {
		two[i] = thing(kind, namespace, "")
		two[i].Object["spec"] = map[string]any{path: value}
	}
	return two
}
