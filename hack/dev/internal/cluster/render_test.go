// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/internal/testing/manifests"
)

const webhook = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: holdfast-protect
  annotations:
    cert-manager.io/inject-ca-from: holdfast-system/holdfast-webhook
    kept: "yes"
webhooks:
- name: protect.holdfast.dev
  clientConfig:
    service: {name: holdfast-webhook, namespace: holdfast-system, path: /mutate-pods, port: 443}
`

func TestPointToLoopback(t *testing.T) {
	objects, err := manifests.Parse([]byte(webhook))
	if err != nil {
		t.Fatal(err)
	}
	if err := pointToLoopback(objects[0], endpoint{webhookPort: 12345, authority: []byte("PEM")}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"kept": "yes"}, objects[0].GetAnnotations()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	webhooks, _, err := unstructured.NestedSlice(objects[0].Object, "webhooks")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"url": "https://127.0.0.1:12345/mutate-pods", "caBundle": "UEVN"}
	if diff := cmp.Diff(want, webhooks[0].(map[string]any)["clientConfig"]); diff != "" {
		t.Errorf("clientConfig (-want +got):\n%s", diff)
	}
}

func TestADeploymentStaysAwayFromNodesThatWaitForTheirCNS(t *testing.T) {
	expressions := func(kind string, nodes ...string) []any {
		t.Helper()
		o := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
		if err := awayFrom(o, nodes); err != nil {
			t.Fatal(err)
		}
		terms, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "affinity", "nodeAffinity",
			"requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		if err != nil || len(terms) == 0 {
			return nil
		}
		return terms[0].(map[string]any)["matchExpressions"].([]any)
	}
	want := []any{map[string]any{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": []any{"node-d1", "node-d2"}}}
	if diff := cmp.Diff(want, expressions("Deployment", "node-d1", "node-d2")); diff != "" {
		t.Errorf("a Deployment's node affinity (-want +got):\n%s", diff)
	}
	if got := expressions("Deployment"); got != nil {
		t.Errorf("without such nodes: %v", got)
	}
	if got := expressions("DaemonSet", "node-d1"); got != nil {
		t.Errorf("a DaemonSet: %v", got)
	}
}

func TestFindRoot(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(inside)
	if _, err := FindRoot(); err == nil || !strings.Contains(err.Error(), "no checkout of Holdfast") {
		t.Errorf("outside of a checkout: error %v", err)
	}
	for name, module := range map[string]string{dir: mainModule, filepath.Join(dir, "a"): mainModule + "/hack/dev"} {
		if err := os.WriteFile(filepath.Join(name, "go.mod"), []byte(module+"\n\ngo 1.26.0\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	if want, err := filepath.EvalSymlinks(dir); err != nil || root != want && root != dir {
		t.Errorf("got %s, want %s (error %v)", root, want, err)
	}
}

func TestOptions(t *testing.T) {
	if _, err := (Options{}).withDefaults(); err == nil {
		t.Error("a cluster without a folder is no error")
	}
	o, err := Options{Dir: "x", Root: "y"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(o.Dir) || len(o.Nodes) != 2 {
		t.Errorf("folder %s, nodes %q", o.Dir, o.Nodes)
	}
}
