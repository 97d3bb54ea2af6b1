// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
)

var now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// served is a certificate that signs itself, and is its own authority.
func served(t *testing.T, host string, from, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotBefore: from, NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func secret(certificate []byte) release.Fact[*corev1.Secret] {
	return release.Known(&corev1.Secret{Data: map[string][]byte{corev1.TLSCertKey: certificate}})
}

func managerPod(node string, ready corev1.ConditionStatus) corev1.Pod {
	return corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
}

func containers(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
}

// kubelets gives the cluster a Node for each version.
func kubelets(versions ...string) func(*testing.T, *Facts) {
	return func(_ *testing.T, f *Facts) {
		nodes := make([]corev1.Node, len(versions))
		for i, version := range versions {
			nodes[i].Name, nodes[i].Status.NodeInfo.KubeletVersion = "a", version
		}
		f.Nodes = release.Known(nodes)
	}
}

// wellInstalled is an installation without a fault.
func wellInstalled(t *testing.T) *Facts {
	t.Helper()
	c := &configv1alpha1.ManagerConfiguration{}
	configv1alpha1.SetDefaults(c)
	c.Evidence, c.UnsafeReleases.Mode = configv1alpha1.EvidenceKubelet, configv1alpha1.ReleaseModeWarn
	certificate := served(t, "holdfast-webhook.holdfast-system.svc", now.Add(-30*day), now.Add(60*day))
	ours := func(configuration, name string, creates bool) Webhook {
		return Webhook{Configuration: configuration, Name: name, Service: "holdfast-system/holdfast-webhook", CABundle: certificate, Ready: release.Known(2), Ours: true, CreatesPods: creates}
	}
	return &Facts{
		Namespace: "holdfast-system", Plugin: "v0.1.0", APIServer: release.Known("v1.37.1"), Configuration: release.Known(c), ConfigurationSource: "ConfigMap x",
		Manager: release.Known(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(2)), Template: containers("ghcr.io/x/manager:v0.1.0")}}),
		Pods:    []corev1.Pod{managerPod("a", corev1.ConditionTrue), managerPod("b", corev1.ConditionTrue)},
		Agents:  release.Known(&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: containers("ghcr.io/x/agent:v0.1.2")}}), AgentPods: []corev1.Pod{managerPod("a", corev1.ConditionTrue)},
		AgentConfiguration: agentsWait(configv1alpha1.DefaultSandboxCreationMax),
		Nodes:              release.Known([]corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}),
		Webhooks: release.Known([]Webhook{ours("holdfast-protect", "protect.holdfast.dev", true), ours("holdfast-release", "ippool.release.holdfast.dev", false),
			ours("holdfast-slices", "slices.holdfast.dev", false)}),
		AdmissionPolicies: release.Known(installedPolicies()),
		Certificate:       secret(certificate), Issuing: known(issued(now.Add(30 * day))), Protection: release.Known(Protection{Finalizer: true, Label: true}), Updates: []Update{{Pod: "apps/web"}},
		Rights: []Right{{Account: "m", Verb: "get", Resource: "pods", Allowed: true}}, Records: release.Known([]v1alpha1.IPAllocation{}), GuardedNodes: release.Known([]v1alpha1.GuardedNode{}),
		Events: release.Known([]inspect.Event{}), DaemonSets: map[string]release.Fact[*appsv1.DaemonSet]{"kube-system/whereabouts": release.Known(&appsv1.DaemonSet{})},
		Policies: release.Known([]v1alpha1.NodeResourcePolicy{}), PoolsServed: release.Known(true), SlicePoolsServed: release.Known(true), PoolNamespaces: release.Known([]string{"kube-system"}),
		MutatingPoliciesServed: release.Known(true), Older: release.Known([]string(nil)),
	}
}

// agentsWait is a configuration of agents with that delays.sandboxCreationMax.
func agentsWait(d time.Duration) release.Fact[*configv1alpha1.AgentConfiguration] {
	c := &configv1alpha1.AgentConfiguration{}
	c.Delays.SandboxCreationMax = &metav1.Duration{Duration: d}
	return release.Known(c)
}

func installedPolicies() AdmissionPolicies {
	var all AdmissionPolicies
	for _, name := range reportpolicy.Installed {
		meta := metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-day))}
		all.Policies = append(all.Policies, admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: &admissionregistrationv1.MatchResources{}}})
		all.Bindings = append(all.Bindings, admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}})
	}
	return all
}

func changePolicies(f *Facts, alter func(*AdmissionPolicies)) {
	all := installedPolicies()
	alter(&all)
	f.AdmissionPolicies = release.Known(all)
}

func heldRecord(reason string, ago time.Duration) v1alpha1.IPAllocation {
	return v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "u"}, Spec: v1alpha1.IPAllocationSpec{PodNamespace: "apps", PodName: "web", NodeName: "a"},
		Status: v1alpha1.IPAllocationStatus{State: v1alpha1.StateHeld, Conditions: []metav1.Condition{{Type: v1alpha1.ReleasedCondition, Status: metav1.ConditionFalse, Reason: reason,
			LastTransitionTime: metav1.NewTime(now.Add(-ago))}}}}
}

// queried is a GuardedNode with a query of an epoch, made some time ago, and a response to that of another or the same.
func queried(ago time.Duration, epoch, responded int64) release.Fact[[]v1alpha1.GuardedNode] {
	return release.Known([]v1alpha1.GuardedNode{{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.GuardedNodeSpec{NodeName: "a",
		Queries: []v1alpha1.SandboxQuery{{Record: "u", SandboxID: "s", BootID: "b", Epoch: epoch, Time: metav1.NewTime(now.Add(-ago))}}},
		Status: v1alpha1.GuardedNodeStatus{Responses: []v1alpha1.SandboxResponse{{Record: "u", SandboxID: "s", BootID: "b", Epoch: responded}}}}})
}

func change(f *Facts, i int, alter func(*Webhook)) {
	all := append([]Webhook{}, f.Webhooks.Get()...)
	alter(&all[i])
	f.Webhooks = release.Known(all)
}

func withAgents(f *Facts) {
	c := *f.Configuration.Get()
	c.Evidence = configv1alpha1.EvidenceAgent
	f.Configuration = release.Known(&c)
}

func asShadow(f *Facts) {
	c := *f.Configuration.Get()
	c.Mode = configv1alpha1.ModeShadow
	f.Configuration = release.Known(&c)
}

func TestDiagnose(t *testing.T) {
	cases := map[string]struct {
		change func(*testing.T, *Facts)
		check  string
		level  Level
		found  string
	}{
		"no definition of ours": {func(_ *testing.T, f *Facts) { f.Unserved.Records, f.Unserved.Policies = true, true }, "definitions", Fail,
			"Holdfast is not installed: the API server serves no ipallocations.holdfast.dev and no noderesourcepolicies.holdfast.dev"},
		"a definition of an earlier version": {func(_ *testing.T, f *Facts) { f.Older = release.Known([]string{"ipallocations.spec.disownedBy"}) }, "definitions", Fail,
			"the CustomResourceDefinitions are older than this plugin, and lack ipallocations.spec.disownedBy"},
		"a definition of an earlier version, and a manager of another one": {func(_ *testing.T, f *Facts) {
			f.Older, f.Plugin = release.Known([]string{"ipallocations.spec.disownedBy"}), "v0.1.1"
		}, "definitions", Warn, "the CustomResourceDefinitions are older than this plugin"},
		"one definition of two": {func(_ *testing.T, f *Facts) { f.Unserved.Policies = true }, "definitions", Fail,
			"Holdfast is installed in part: the API server serves no noderesourcepolicies.holdfast.dev"},
		"an admission policy is missing": {func(_ *testing.T, f *Facts) {
			changePolicies(f, func(all *AdmissionPolicies) { all.Policies = all.Policies[1:] })
		},
			"admission policies", Fail, "there is no ValidatingAdmissionPolicy holdfast-kubelet-reports"},
		"an admission policy has no binding": {func(_ *testing.T, f *Facts) {
			changePolicies(f, func(all *AdmissionPolicies) { all.Bindings = all.Bindings[1:] })
		},
			"admission policies", Fail, "the ValidatingAdmissionPolicy holdfast-kubelet-reports has no binding"},
		"an admission policy only warns": {func(_ *testing.T, f *Facts) {
			changePolicies(f, func(all *AdmissionPolicies) { all.Bindings[3].Spec.ValidationActions[0] = admissionregistrationv1.Warn })
		}, "admission policies", Fail, "the ValidatingAdmissionPolicyBinding holdfast-leases does not deny (validationActions)"},
		"an admission policy fails open": {func(_ *testing.T, f *Facts) {
			changePolicies(f, func(all *AdmissionPolicies) { all.Policies[2].Spec.FailurePolicy = new(admissionregistrationv1.Ignore) })
		}, "admission policies", Fail, "the ValidatingAdmissionPolicy holdfast-finalizer does not fail closed (failurePolicy)"},
		"admission policies that may not be read": {func(_ *testing.T, f *Facts) { f.AdmissionPolicies = release.Unknown[AdmissionPolicies]("no right") },
			"admission policies", Warn, "no right"},
		"no manager":                     {func(_ *testing.T, f *Facts) { f.Manager = release.Absent[*appsv1.Deployment]() }, "manager replicas", Fail, "there is no Deployment"},
		"a manager that may not be read": {func(_ *testing.T, f *Facts) { f.Manager = release.Unknown[*appsv1.Deployment]("no right") }, "manager replicas", Warn, "no right"},
		"no replica is Ready":            {func(_ *testing.T, f *Facts) { f.Pods = nil }, "manager replicas", Fail, "none of 2 is Ready"},
		"one of two replicas is Ready":   {func(_ *testing.T, f *Facts) { f.Pods[0] = managerPod("a", corev1.ConditionFalse) }, "manager replicas", Warn, "1 of 2"},
		"both replicas are on one node":  {func(_ *testing.T, f *Facts) { f.Pods[0] = managerPod("b", corev1.ConditionTrue) }, "manager replicas", Warn, "all 2 are on node b"},
		"one replica only":               {func(_ *testing.T, f *Facts) { f.Manager.Get().Spec.Replicas = new(int32(1)) }, "manager replicas", Warn, "one replica only"},
		"a configuration that is wrong": {func(_ *testing.T, f *Facts) {
			f.Configuration = release.Unknown[*configv1alpha1.ManagerConfiguration]("2 mistakes")
		}, "configuration", Fail, "2 mistakes"},
		"a configuration that is assumed":    {func(_ *testing.T, f *Facts) { f.Assumed = true }, "configuration", Warn, "assumed"},
		"no certificate":                     {func(_ *testing.T, f *Facts) { f.Certificate = release.Absent[*corev1.Secret]() }, "certificate", Fail, "there is no Secret"},
		"a certificate that may not be read": {func(_ *testing.T, f *Facts) { f.Certificate = release.Unknown[*corev1.Secret]("no right") }, "certificate", Warn, "no right"},
		"a certificate that ended": {func(t *testing.T, f *Facts) {
			f.Certificate = secret(served(t, "holdfast-webhook.holdfast-system.svc", now.Add(-90*day), now.Add(-day)))
		}, "certificate", Fail, "it ended at 2026-01-01T12:00:00Z"},
		"a certificate near its end": {func(t *testing.T, f *Facts) {
			certificate := served(t, "holdfast-webhook.holdfast-system.svc", now.Add(-80*day), now.Add(10*day))
			f.Certificate = secret(certificate)
			for i := range f.Webhooks.Get() {
				change(f, i, func(w *Webhook) { w.CABundle = certificate })
			}
		}, "certificate", Warn, "it ends in 10d"},
		"a certificate for another host": {func(t *testing.T, f *Facts) {
			f.Certificate = secret(served(t, "x.svc", now.Add(-day), now.Add(60*day)))
		}, "certificate", Fail, "it is not for holdfast-webhook"},
		"no certificate in the Secret":   {func(_ *testing.T, f *Facts) { f.Certificate = secret([]byte("x")) }, "certificate", Fail, "no certificate that can be read"},
		"a webhook without an authority": {func(_ *testing.T, f *Facts) { change(f, 0, func(w *Webhook) { w.CABundle = nil }) }, "webhooks", Fail, "protect.holdfast.dev (holdfast-protect) has no authority"},
		"a webhook with another authority": {func(t *testing.T, f *Facts) {
			change(f, 1, func(w *Webhook) { w.CABundle = served(t, "ca", now.Add(-day), now.Add(day)) })
		}, "webhooks", Fail, "does not trust the serving certificate"},
		"a webhook without a ready endpoint": {func(_ *testing.T, f *Facts) { change(f, 2, func(w *Webhook) { w.Ready = release.Known(0) }) }, "webhooks", Fail, "has no ready endpoint behind its Service"},
		"a configuration is missing":         {func(_ *testing.T, f *Facts) { f.Webhooks = release.Known(f.Webhooks.Get()[:2]) }, "webhooks", Fail, "there is no webhook configuration holdfast-slices"},
		"k3s without agents":                 {kubelets("v1.37.1+k3s1"), "field manager of the kubelets", Fail, "on 1 of 1 nodes kubelet and controller manager are one program"},
		"k3s with agents":                    {func(t *testing.T, f *Facts) { kubelets("v1.37.1+k3s1")(t, f); withAgents(f) }, "field manager of the kubelets", OK, "agents are queried"},
		"MicroK8s without agents": {func(_ *testing.T, f *Facts) {
			f.Nodes.Get()[0].Labels = map[string]string{"microk8s.io/cluster": "true"}
		},
			"field manager of the kubelets", Fail, "no report of a kubelet releases an address"},
		"a pod was not protected":       {func(_ *testing.T, f *Facts) { f.Protection = release.Known(Protection{Label: true}) }, "protection", Fail, "was not protected"},
		"a shadow":                      {func(_ *testing.T, f *Facts) { asShadow(f); f.Protection = release.Known(Protection{}) }, "mode", Warn, "Shadow: nothing is protected"},
		"a shadow protects nothing":     {func(_ *testing.T, f *Facts) { asShadow(f); f.Protection = release.Known(Protection{}) }, "protection", OK, "was not protected"},
		"a protection beside a shadow":  {func(_ *testing.T, f *Facts) { asShadow(f) }, "protection", Fail, "the mode is Shadow, and a pod"},
		"protection could not be tried": {func(_ *testing.T, f *Facts) { f.Protection = release.Unknown[Protection]("no right") }, "protection", Warn, "no right"},
		"another webhook blocks updates": {func(_ *testing.T, f *Facts) {
			f.Webhooks = release.Known(append(f.Webhooks.Get(), Webhook{Configuration: "c", Name: "x.example.com", Service: "a/b", FailsClosed: true, UpdatesPods: true, Ready: release.Known(0)}))
		}, "webhooks of others", Fail, "x.example.com (c) is called for updates of pods, fails closed, and has no ready endpoint behind its Service a/b"},
		"another webhook changes pods": {func(_ *testing.T, f *Facts) {
			f.Webhooks = release.Known(append(f.Webhooks.Get(), Webhook{Name: "x.example.com", Mutating: true, UpdatesPods: true, Ready: release.Known(1)}))
		}, "webhooks of others", Warn, "may change pods at every update: x.example.com"},
		"another webhook fails open": {func(_ *testing.T, f *Facts) {
			f.Webhooks = release.Known(append(f.Webhooks.Get(), Webhook{Name: "x.example.com", UpdatesPods: true, Ready: release.Known(0)}))
		}, "webhooks of others", OK, "none stops"},
		"pods can only be changed through their status": {func(_ *testing.T, f *Facts) { f.Updates[0].Refused = "no" }, "pod updates", Warn, "1 of 1 guarded pods"},
		"pods cannot be changed at all":                 {func(_ *testing.T, f *Facts) { f.Updates[0] = Update{"apps/web", "no", "never"} }, "pod updates", Fail, "its finalizer cannot come off"},
		"pods could not be tried":                       {func(_ *testing.T, f *Facts) { f.UpdatesUnread = "no right" }, "pod updates", Warn, "no right"},
		"the protection webhook fails closed":           {func(_ *testing.T, f *Facts) { change(f, 0, func(w *Webhook) { w.FailsClosed = true }) }, "bootstrap", Warn, "fails closed"},
		"the protection webhook fails closed everywhere": {func(_ *testing.T, f *Facts) {
			change(f, 0, func(w *Webhook) { w.FailsClosed, w.Everywhere = true, true })
		}, "bootstrap", Fail, "no pod starts"},
		"a right is missing":            {func(_ *testing.T, f *Facts) { f.Rights[0].Allowed = false }, "rights of the accounts", Fail, "m may not get pods"},
		"rights could not be asked for": {func(_ *testing.T, f *Facts) { f.RightsUnread = "no right" }, "rights of the accounts", Warn, "no right"},
		"pools elsewhere": {func(_ *testing.T, f *Facts) { f.PoolNamespaces = release.Known([]string{"kube-system", "wb"}) }, "IPAM", Fail,
			"IPPools in wb are not guarded: whereabouts.namespaces has kube-system"},
		"no pools are served": {func(_ *testing.T, f *Facts) { f.PoolsServed = release.Known(false) }, "IPAM", Fail, "serves no IPPools"},
		"a DaemonSet of CNI DEL is missing": {func(_ *testing.T, f *Facts) {
			f.DaemonSets["kube-system/whereabouts"] = release.Absent[*appsv1.DaemonSet]()
		}, "IPAM", Warn, "there is no DaemonSet kube-system/whereabouts"},
		"removals that were not safe": {func(_ *testing.T, f *Facts) {
			f.Events = release.Known([]inspect.Event{{Reason: "UnsafeReleaseRefused", Count: 3, Last: now.Add(-time.Minute), Note: "by x"}, {Reason: "UnsafeReleaseRefused", Last: now.Add(-2 * time.Hour)}})
		}, "unsafe releases", Warn, "removals within the last hour that were not safe: 3 refused (mode Warn); the last: by x"},
		"removals that were not safe, and allowed": {func(_ *testing.T, f *Facts) {
			f.Events = release.Known([]inspect.Event{{Reason: "UnsafeReleaseRefused", Last: now.Add(-time.Minute)}, {Reason: "UnsafeReleaseWarned", Count: 2, Last: now, Note: "by y"}})
		}, "unsafe releases", Warn, "that were not safe: 2 allowed with a warning, 1 refused (mode Warn); the last: by y"},
		"no agents, and none needed":                          {func(_ *testing.T, f *Facts) { f.Agents = release.Absent[*appsv1.DaemonSet]() }, "agents", OK, "not needed"},
		"no agents, and their reports are needed":             {func(_ *testing.T, f *Facts) { f.Agents = release.Absent[*appsv1.DaemonSet](); withAgents(f) }, "agents", Fail, "everything is held"},
		"a node without an agent":                             {func(_ *testing.T, f *Facts) { f.AgentPods = nil }, "agents", Warn, "no agent is Ready on a"},
		"a node without an agent, and its reports are needed": {func(_ *testing.T, f *Facts) { f.AgentPods = nil; withAgents(f) }, "agents", Fail, "no agent is Ready on a"},
		"an agent that does not respond": {func(_ *testing.T, f *Facts) {
			f.GuardedNodes = queried(2*time.Minute, 2, 1)
		}, "agents", Warn, "no response to a query for more than 1m0s: record u, node a"},
		"an agent that says why it does not respond": {func(_ *testing.T, f *Facts) {
			f.GuardedNodes = queried(2*time.Minute, 2, 1)
			f.GuardedNodes.Get()[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.RespondingCondition, Status: metav1.ConditionFalse, Reason: "RuntimeUnreachable"}}
		}, "agents", Warn, "record u, node a (RuntimeUnreachable)"},
		"an agent that responded to the query":             {func(_ *testing.T, f *Facts) { f.GuardedNodes = queried(2*time.Minute, 2, 2) }, "agents", OK, "no query is without a response"},
		"an agent that was queried less than a minute ago": {func(_ *testing.T, f *Facts) { f.GuardedNodes = queried(time.Minute, 2, 1) }, "agents", OK, "no query is without a response"},
		"GuardedNodes could not be read":                   {func(_ *testing.T, f *Facts) { f.GuardedNodes = release.Unknown[[]v1alpha1.GuardedNode]("no right") }, "agents", Warn, "no right"},
		"agents that wait for a shorter time": {func(_ *testing.T, f *Facts) { f.AgentConfiguration = agentsWait(time.Minute) }, "delays of the agents", Fail,
			"delays.sandboxCreationMax is 1m0s in the agents' configuration and 10m0s in the manager's"},
		"agents that wait for a longer time": {func(_ *testing.T, f *Facts) { f.AgentConfiguration = agentsWait(20 * time.Minute) }, "delays of the agents", Warn,
			"is 20m0s in the agents' configuration"},
		"agents that wait for much longer": {func(_ *testing.T, f *Facts) { f.AgentConfiguration = agentsWait(time.Hour) }, "delays of the agents", Fail,
			"is 1h0m0s in the agents' configuration"},
		"the agents' configuration could not be read": {func(_ *testing.T, f *Facts) {
			f.AgentConfiguration = release.Unknown[*configv1alpha1.AgentConfiguration]("no right")
		}, "delays of the agents", Warn, "no right"},
		"an old Kubernetes":                 {func(_ *testing.T, f *Facts) { f.APIServer = release.Known("v1.29.4") }, "versions", Fail, "the API server is Kubernetes v1.29.4: 1.31 or newer is needed"},
		"a Kubernetes one below the oldest": {func(_ *testing.T, f *Facts) { f.APIServer = release.Known("v1.30.14") }, "versions", Fail, "the API server is Kubernetes v1.30.14: 1.31 or newer is needed"},
		"the oldest Kubernetes":             {func(_ *testing.T, f *Facts) { f.APIServer = release.Known("v1.31.4") }, "versions", OK, "Kubernetes v1.31.4"},
		"no MutatingAdmissionPolicies": {func(_ *testing.T, f *Facts) { f.MutatingPoliciesServed = release.Known(false) }, "features", OK,
			"the API server serves no MutatingAdmissionPolicy v1 (on by default from 1.36), so that the webhook alone protects new pods"},
		"it could not be told whether they are served": {func(_ *testing.T, f *Facts) { f.MutatingPoliciesServed = release.Unknown[bool]("no answer") }, "features", Warn, "no answer"},
		"an old kubelet without agents": {kubelets("v1.36.3", "v1.37.1"), "features", Warn,
			"1 of 2 kubelets are older than 1.37 and do not report that a pod has no sandbox"},
		"an old kubelet with agents": {func(t *testing.T, f *Facts) { kubelets("v1.31.4+k3s1")(t, f); withAgents(f) }, "features", OK, "1 of 1 kubelets are older than 1.37"},
		"no slices of nodes": {func(_ *testing.T, f *Facts) { f.SlicePoolsServed = release.Known(false) }, "IPAM", OK,
			"IPPools are served, and NodeSlicePools are not (whereabouts before 0.9)"},
		"a plugin of another minor version":     {func(_ *testing.T, f *Facts) { f.Plugin = "v0.2.0" }, "versions", Warn, "plugin v0.2.0"},
		"a plugin that was built from the tree": {func(_ *testing.T, f *Facts) { f.Plugin = "unknown" }, "versions", OK, "plugin unknown"},
		"a record that is held for long": {func(_ *testing.T, f *Facts) {
			f.Records = release.Known([]v1alpha1.IPAllocation{heldRecord("NodeUnreachable", time.Hour)})
		}, "records held", Warn, "1; the longest: apps/web for 60m (NodeUnreachable, ipa/u)"},
		"a record that is held for a moment": {func(_ *testing.T, f *Facts) {
			f.Records = release.Known([]v1alpha1.IPAllocation{heldRecord("NodeUnreachable", time.Minute)})
		}, "records held", OK, "1; the longest"},
		"what no row fits": {func(_ *testing.T, f *Facts) {
			f.Records = release.Known([]v1alpha1.IPAllocation{heldRecord("Unclassified", time.Minute)})
		}, "unclassified", Fail, "record u"},
		"what no row fitted": {func(_ *testing.T, f *Facts) {
			f.Events = release.Known([]inspect.Event{{Reason: "Unclassified", Kind: "Pod", Namespace: "apps", Name: "web"}})
		}, "unclassified", Fail, "event about Pod apps/web"},
		"records that may not be read": {func(_ *testing.T, f *Facts) { f.Records = release.Unknown[[]v1alpha1.IPAllocation]("no right") }, "unclassified", Warn, "no right"},
		"a policy that waits for its resource": {func(_ *testing.T, f *Facts) {
			f.Policies = release.Known([]v1alpha1.NodeResourcePolicy{
				{ObjectMeta: metav1.ObjectMeta{Name: "here"}},
				{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: v1alpha1.NodeResourcePolicyStatus{Conditions: []metav1.Condition{
					{Type: v1alpha1.PolicyAccepted, Status: metav1.ConditionTrue, Reason: "ResourceNotServed"},
					{Type: v1alpha1.PolicyEnforced, Status: metav1.ConditionTrue, Reason: "WebhookConfigured"},
					{Type: v1alpha1.PolicySwept, Status: metav1.ConditionTrue, Reason: "ResourceNotServed"}}}}})
		}, "node resource policies", OK, "1 of 2 wait for a resource that this cluster does not have, and begin by themselves when it comes: p"},
		"a policy of a version that is not served": {func(_ *testing.T, f *Facts) {
			f.Policies = release.Known([]v1alpha1.NodeResourcePolicy{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: v1alpha1.NodeResourcePolicyStatus{
				Conditions: []metav1.Condition{{Type: v1alpha1.PolicyAccepted, Status: metav1.ConditionFalse, Reason: "ResourceNotServed"}}}}})
		}, "node resource policies", Warn, "p is not Accepted: ResourceNotServed"},
		"a policy of a shadow, of which the mode says enough": {func(_ *testing.T, f *Facts) {
			f.Policies = release.Known([]v1alpha1.NodeResourcePolicy{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: v1alpha1.NodeResourcePolicyStatus{
				Conditions: []metav1.Condition{{Type: v1alpha1.PolicyEnforced, Status: metav1.ConditionFalse, Reason: "ShadowMode"}}}}})
		}, "node resource policies", OK, "1, and each works"},
		"a policy that does not work": {func(_ *testing.T, f *Facts) {
			f.Policies = release.Known([]v1alpha1.NodeResourcePolicy{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: v1alpha1.NodeResourcePolicyStatus{
				Conditions: []metav1.Condition{{Type: v1alpha1.PolicyEnforced, Status: metav1.ConditionFalse, Reason: "AwaitingCABundle"}}}}})
		}, "node resource policies", Warn, "p is not Enforced: AwaitingCABundle"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := wellInstalled(t)
			tc.change(t, f)
			d := Diagnose(f, now)
			said := false
			for _, c := range d.Checks {
				if c.Name == tc.check && c.Level == tc.level && strings.Contains(c.Found, tc.found) {
					said = true
				}
				if (c.Level == OK) != (c.Do == "") {
					t.Errorf("%s is %s and says to do %q", c.Name, c.Level, c.Do)
				}
			}
			if !said {
				t.Errorf("no check %q says %s, %q: %+v", tc.check, tc.level, tc.found, d.Checks)
			}
			if d.Attention() != (tc.level == Fail) {
				t.Errorf("attention is %t", d.Attention())
			}
		})
	}
}

func TestAWellInstalledHoldfastHasNothingToMend(t *testing.T) {
	for _, c := range Diagnose(wellInstalled(t), now).Checks {
		if c.Level != OK {
			t.Errorf("%s: %s, %s", c.Name, c.Level, c.Found)
		}
	}
}
