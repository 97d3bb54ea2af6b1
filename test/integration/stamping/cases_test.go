// SPDX-License-Identifier: Apache-2.0

package stamping_test

import (
	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
)

// podCase is a pod and who stamps it.
type podCase struct {
	pod *corev1.Pod
	// call: it reaches the webhook.
	call bool
	// stamped: the webhook stamps it.
	stamped bool
	// policy: the admission policy stamps it, which cannot look behind a network's name.
	policy bool
	// warning is a part of the webhook's warning, if it has one.
	warning string
}

// cases are the entries of the tables for the webhook and for the policy.
func cases() []TableEntry {
	guarded := func(changes ...func(*corev1.Pod)) podCase {
		return podCase{pod: newPod(changes...), call: true, stamped: true, policy: true}
	}
	unguarded := func(changes ...func(*corev1.Pod)) podCase {
		return podCase{pod: newPod(changes...), call: true, policy: true}
	}
	spared := func(changes ...func(*corev1.Pod)) podCase { return podCase{pod: newPod(changes...)} }
	warns := func(c podCase, warning string) podCase { c.warning = warning; return c }

	return []TableEntry{
		Entry("no annotations", spared()),
		Entry("other annotations", spared(annotate("example.com/networks", "blue"))),
		Entry("an empty networks annotation", spared(naming(""))),
		Entry("host network", spared(naming("blue"), onHostNetwork)),
		Entry("a mirror pod", spared(naming("blue"), mirrorPod)),
		Entry("opted out by its annotation", spared(naming("blue"), annotate("holdfast.dev/guard", "off"))),
		Entry("in a namespace that opted out", spared(naming("apps/blue"), in(quiet))),
		Entry("in kube-system", spared(naming("apps/blue"), in("kube-system"))),
		Entry("in the agents' namespace", spared(naming("apps/blue"), in(agents))),
		Entry("stamped by its creator", spared(naming("blue"), withFinalizers(finalizer), labeled(guardedLabel, "true"))),

		Entry("a name", guarded(naming("blue"))),
		Entry("namespace, name and interface", guarded(naming("apps/blue@net7"))),
		Entry("one guarded among several", guarded(naming("grey, blue@net2,layer-two"))),
		Entry("JSON", guarded(naming(`[{"name":"blue","namespace":"apps","interface":"net7","ips":["192.168.2.3"]}]`))),
		Entry("a list of plugins", guarded(naming("listed"))),
		Entry("a default network without a namespace", guarded(defaultNetwork("base"))),
		Entry("a default network with a namespace", guarded(defaultNetwork("apps/blue"))),
		Entry("a configuration that is a file on the nodes", guarded(naming("on-node"))),
		Entry("another value of the opt-out", guarded(naming("blue"), annotate("holdfast.dev/guard", "on"))),
		Entry("finalizers and labels of others", guarded(naming("blue"), withFinalizers("a.example.com/x", "b.example.com/y"), labeled("app", "web"))),
		Entry("only our finalizer", guarded(naming("blue"), withFinalizers(finalizer))),
		Entry("only our label", guarded(naming("blue"), labeled(guardedLabel, "true"))),
		Entry("our label with another value", guarded(naming("blue"), labeled(guardedLabel, "no"))),

		Entry("a malformed annotation", warns(guarded(naming(`[{"name":`)), "annotation k8s.v1.cni.cncf.io/networks cannot be read")),
		Entry("a null in the annotation", warns(guarded(naming(`[null]`)), "is null")),
		Entry("upper case in the annotation", warns(guarded(naming("Blue")), "is no name")),
		Entry("an empty default network", warns(guarded(defaultNetwork("")), "default-network")),
		Entry("a network that does not exist", warns(guarded(naming("missing")), "apps/missing does not exist (yet)")),
		Entry("a broken configuration", warns(guarded(naming("broken")), "apps/broken: spec.config is no JSON")),

		Entry("an unguarded IPAM", unguarded(naming("grey"))),
		Entry("an unknown IPAM", unguarded(naming("unknown-ipam"))),
		Entry("a plugin without an IPAM", unguarded(naming("layer-two"))),
		Entry("an empty JSON list", unguarded(naming("[]"))),
		Entry("an unguarded default network", unguarded(defaultNetwork("plain"))),
	}
}
