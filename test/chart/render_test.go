// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/testing/manifests"
)

const (
	repository = "../.."
	chart      = repository + "/charts/holdfast"
	// own is the namespace of config/default.
	own = "holdfast-system"
	// kubeVersion is one that Chart.yaml admits; helm template would take the version of its own libraries.
	kubeVersion = "v1.36.0"
)

// values are what a user gives beside values.yaml.
type values map[string]any

// tool gives the path of a program that a module below hack/tools builds. The first time ever takes minutes; the result is in Go's
// own cache.
func tool(name string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		modfile, err := filepath.Abs(filepath.Join(repository, "hack/tools", name, "go.mod"))
		if err != nil {
			return "", err
		}
		return output(exec.Command("go", "tool", "-n", "-modfile="+modfile, name))
	})
}

var helmTool, kustomizeTool = tool("helm"), tool("kustomize")

// output is what a command printed; what it complained about is in the error.
func output(command *exec.Cmd) (string, error) {
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, &stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// helm runs it with values, away from the user's own configuration and caches.
func helm(t *testing.T, given values, args ...string) (string, error) {
	t.Helper()
	program, err := helmTool()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if given != nil {
		file := filepath.Join(folder, "values.yaml")
		write(t, file, marshal(t, given))
		args = append(args, "--values="+file)
	}
	command := exec.Command(program, args...)
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+folder, "HELM_CONFIG_HOME="+folder, "HELM_DATA_HOME="+folder, "KUBECONFIG="+filepath.Join(folder, "none"))
	return output(command)
}

// template renders the chart as a release of the name holdfast.
func template(t *testing.T, namespace string, given values) (string, error) {
	t.Helper()
	return helm(t, given, "template", "holdfast", chart, "--namespace="+namespace, "--kube-version="+kubeVersion)
}

// mustTemplate renders into the default namespace.
func mustTemplate(t *testing.T, given values) []*unstructured.Unstructured {
	t.Helper()
	text, err := template(t, own, given)
	if err != nil {
		t.Fatal(err)
	}
	return split(t, text)
}

// kustomization is one of ours with more on top.
type kustomization struct {
	// Resources and Components are folders of the repository.
	Resources, Components []string
	// Configuration replaces the manager's, where it is not empty.
	Configuration string
}

// build builds it. Every object gets the label that config/default gives to its own.
func (k kustomization) build(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	program, err := kustomizeTool()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	document := map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"resources": relative(t, folder, k.Resources), "components": relative(t, folder, k.Components),
		"labels": []any{map[string]any{"pairs": map[string]any{"app.kubernetes.io/part-of": "holdfast"}}},
	}
	if k.Configuration != "" {
		write(t, filepath.Join(folder, "config.yaml"), k.Configuration)
		document["configMapGenerator"] = []any{map[string]any{
			"name": "holdfast-manager-config", "namespace": own, "behavior": "replace", "files": []string{"config.yaml"},
		}}
	}
	write(t, filepath.Join(folder, "kustomization.yaml"), marshal(t, document))
	text, err := output(exec.Command(program, "build", folder))
	if err != nil {
		t.Fatal(err)
	}
	return split(t, text)
}

// relative are the ways from a folder to folders of the repository: kustomize takes no absolute ones.
func relative(t *testing.T, from string, folders []string) []string {
	t.Helper()
	ways := make([]string, 0, len(folders))
	for _, folder := range folders {
		absolute, err := filepath.Abs(filepath.Join(repository, folder))
		if err != nil {
			t.Fatal(err)
		}
		if absolute, err = filepath.EvalSymlinks(absolute); err != nil {
			t.Fatal(err)
		}
		way, err := filepath.Rel(from, absolute)
		if err != nil {
			t.Fatal(err)
		}
		ways = append(ways, way)
	}
	return ways
}

func split(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := manifests.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func marshal(t *testing.T, content any) string {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
