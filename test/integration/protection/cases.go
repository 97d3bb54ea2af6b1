// SPDX-License-Identifier: Apache-2.0

package protection

import (
	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
)

// podCase is a pod and who protects it.
type podCase struct {
	pod *corev1.Pod
	// call: it reaches the webhook.
	call bool
	// protected: the webhook protects it.
	protected bool
	// policy: the admission policy protects it, which cannot look behind a network's name.
	policy bool
	// warning is a part of the webhook's warning, if it has one.
	warning string
}

// cases are the entries of the tables for the webhook and for the policy.
func cases() []TableEntry {
	guarded := func(changes ...func(*corev1.Pod)) podCase {
		return podCase{pod: newPod(changes...), call: true, protected: true, policy: true}
	}
	unguarded := func(changes ...func(*corev1.Pod)) podCase {
		return podCase{pod: newPod(changes...), call: true, policy: true}
	}
	spared := func(changes ...func(*corev1.Pod)) podCase { return podCase{pod: newPod(changes...)} }
	warns := func(c podCase, warning string) podCase { c.warning = warning; return c }

	return []TableEntry{
		Entry("no annotations", spared()),
		Entry("an empty networks annotation", spared(naming(""))),
		Entry("host network", spared(naming("blue"), onHostNetwork)),
		Entry("a mirror pod", spared(naming("blue"), mirrorPod)),
		Entry("opted out by its annotation", spared(naming("blue"), annotate("holdfast.dev/guard", "off"))),
		Entry("in a namespace that opted out", spared(naming("apps/blue"), in(quiet))),
		Entry("in kube-system", spared(naming("apps/blue"), in("kube-system"))),
		Entry("in the agents' namespace", spared(naming("apps/blue"), in(agents))),
		Entry("protected by its creator", spared(naming("blue"), withFinalizers(finalizer), labeled(guardedLabel, "true"))),

		Entry("a name", guarded(naming("blue"))),
		Entry("a default network", guarded(defaultNetwork("base"))),
		Entry("another value of the opt-out", guarded(naming("blue"), annotate("holdfast.dev/guard", "on"))),
		Entry("finalizers and labels of others", guarded(naming("blue"), withFinalizers("a.example.com/x", "b.example.com/y"), labeled("app", "web"))),
		Entry("only our finalizer", guarded(naming("blue"), withFinalizers(finalizer))),
		Entry("only our label", guarded(naming("blue"), labeled(guardedLabel, "true"))),
		Entry("our label with another value", guarded(naming("blue"), labeled(guardedLabel, "no"))),

		Entry("a malformed annotation", warns(guarded(naming(`[{"name":`)), "annotation k8s.v1.cni.cncf.io/networks cannot be read")),
		Entry("an empty default network", warns(guarded(defaultNetwork("")), "default-network")),
		Entry("a network that does not exist", warns(guarded(naming("missing")), "apps/missing does not exist (yet)")),
		Entry("a broken configuration", warns(guarded(naming("broken")), "apps/broken: spec.config is no JSON")),

		Entry("an unguarded IPAM", unguarded(naming("grey"))),
		Entry("an unknown IPAM", unguarded(naming("unknown-ipam"))),
	}
}
