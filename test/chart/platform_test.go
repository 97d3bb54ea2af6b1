// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/internal/config"
)

// TestPlatform renders each platform and reads what the pods would.
func TestPlatform(t *testing.T) {
	for platform, want := range map[string]struct {
		endpoint               string
		namespaces, daemonSets []string
		text                   string
	}{
		"generic":   {"/run/containerd/containerd.sock", []string{"kube-system"}, []string{"kube-system/whereabouts"}, "runAsUser: 65532"},
		"rke2":      {"/run/k3s/containerd/containerd.sock", []string{"kube-system"}, []string{"kube-system/rke2-multus-rke2-whereabouts"}, "path: /run/k3s/containerd\n"},
		"k3s":       {"/run/k3s/containerd/containerd.sock", []string{"kube-system"}, []string{"kube-system/whereabouts"}, "path: /run/k3s/containerd\n"},
		"k0s":       {"/run/k0s/containerd.sock", []string{"kube-system"}, []string{"kube-system/whereabouts"}, "path: /run/k0s\n"},
		"microk8s":  {"/var/snap/microk8s/common/run/containerd.sock", []string{"kube-system"}, []string{"kube-system/whereabouts"}, "path: /var/snap/microk8s/common/run\n"},
		"openshift": {"/run/crio/crio.sock", []string{"openshift-multus"}, []string{"openshift-multus/multus-additional-cni-plugins", "openshift-multus/whereabouts-token-watcher"}, "type: spc_t\n"},
	} {
		t.Run(platform, func(t *testing.T) {
			t.Parallel()
			text, err := template(t, own, values{"platform": platform})
			if err != nil {
				t.Fatal(err)
			}
			objects := mustTemplate(t, values{"platform": platform})
			manager, err := config.ParseManager(platform, []byte(configurationOf(t, objects, "Deployment")))
			if err != nil {
				t.Fatal(err)
			}
			agent, err := config.ParseAgent(platform, []byte(configurationOf(t, objects, "DaemonSet")))
			if err != nil {
				t.Fatal(err)
			}
			got := []any{agent.Runtime.Endpoint, manager.Whereabouts.Namespaces, manager.UnsafeReleases.DaemonSets}
			if diff := cmp.Diff([]any{want.endpoint, want.namespaces, want.daemonSets}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if !strings.Contains(text, want.text) {
				t.Errorf("nothing contains %q", want.text)
			}
			on := platform == "openshift"
			if strings.Contains(text, "kind: SecurityContextConstraints") != on || strings.Contains(text, "runAsUser: 65532") == on {
				t.Errorf("OpenShift: %t, and the SCC and the user IDs are not as they have to be there", on)
			}
		})
	}
}

// TestPlatformLeavesWhatIsGiven: a value that is not the default wins over the platform's.
func TestPlatformLeavesWhatIsGiven(t *testing.T) {
	text, err := template(t, own, values{"platform": "rke2",
		"manager": values{"configuration": values{"unsafeReleases": values{"daemonSets": []any{"apps/cni"}}}},
		"agent":   values{"configuration": values{"runtime": values{"endpoint": "unix:///run/crio/crio.sock"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "- apps/cni\n") || !strings.Contains(text, "path: /run/crio\n") || strings.Contains(text, "/run/k3s") {
		t.Error("the platform's values stand in the place of those that were given")
	}
}

// TestASharedFieldManagerNeedsAgents: without them no report of a kubelet counts (docs/decisions/0283).
func TestASharedFieldManagerNeedsAgents(t *testing.T) {
	without := values{"agent": values{"enabled": false}, "manager": values{"configuration": values{"evidence": "Kubelet"}}}
	for name, given := range map[string]values{
		"k3s": with(without, "platform", "k3s"), "microk8s": with(without, "platform", "microk8s"),
		"agents that are not evidence": {"platform": "k3s", "manager": values{"configuration": values{"evidence": "Kubelet"}}},
	} {
		if _, err := template(t, own, given); err == nil || !strings.Contains(err.Error(), "there are no agents") {
			t.Errorf("%s without agents: %v, want a refusal", name, err)
		}
	}
	if _, err := template(t, own, with(without, "platform", "rke2")); err != nil {
		t.Errorf("RKE2 without agents: %v", err)
	}
}

// TestTheExcludedNamespacesAreExempt: policy and webhook protect, or refuse, without the manager, which alone reads the configuration.
func TestTheExcludedNamespacesAreExempt(t *testing.T) {
	given := with(inManager(values{"protection": values{"excludedNamespaces": []any{"batch", "kube-system"}}}), "protection.admissionPolicy", true)
	want := map[string]any{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": []any{"kube-system", own, "holdfast-agent", "batch"}}
	found := 0
	for _, object := range mustTemplate(t, given) {
		selecting := object.Object["spec"]
		if object.GetName() == "holdfast-protect" && object.GetKind() == "MutatingWebhookConfiguration" {
			selecting = map[string]any{"matchConstraints": object.Object["webhooks"].([]any)[0]}
		} else if object.GetKind() != "MutatingAdmissionPolicy" {
			continue
		}
		expressions, _, err := unstructured.NestedSlice(selecting.(map[string]any), "matchConstraints", "namespaceSelector", "matchExpressions")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, expressions[0]); diff != "" {
			t.Errorf("the namespaces that the %s exempts (-want +got)\n%s", object.GetKind(), diff)
		}
		found++
	}
	if found != 2 {
		t.Errorf("found %d, expected the policy and the webhook", found)
	}
}

// TestForeignRemovalsAreRefusedWhereTheAccountsAreKnown: where the platform's accounts are others, the default would refuse each CNI DEL.
func TestForeignRemovalsAreRefusedWhereTheAccountsAreKnown(t *testing.T) {
	for _, platform := range []string{"rke2", "openshift"} {
		refused := values{"platform": platform, "policies": values{"refuseForeignRemovals": true}}
		if _, err := template(t, own, refused); err == nil || !strings.Contains(err.Error(), "policies.cniAccounts does not name") {
			t.Errorf("%s with the default accounts: %v, want a refusal", platform, err)
		}
		named := values{"platform": platform, "policies": values{"refuseForeignRemovals": true, "cniAccounts": []any{"system:serviceaccount:cni:own"}}}
		if _, err := template(t, own, named); err != nil {
			t.Errorf("%s with accounts of its own: %v", platform, err)
		}
	}
}
