// SPDX-License-Identifier: Apache-2.0

// Package release_admission_test runs the webhooks that judge removals, as rendered and under the manager's real RBAC
// identity, on a real control plane: tokens are those of pods of whereabouts' own DaemonSet and Deployment.
package release_admission_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	// soon bounds what takes milliseconds on an idle machine.
	soon = time.Minute
	// startTimeout bounds the start of everything.
	startTimeout = 5 * time.Minute
	// pollInterval is how often a condition is looked at.
	pollInterval = 50 * time.Millisecond

	repository        = "../../.."
	whereaboutsModule = "github.com/k8snetworkplumbingwg/whereabouts"
)

var (
	plane *controlplane.ControlPlane
	// admin is uncached and allowed everything.
	admin  client.Client
	scheme = runtime.NewScheme()
)

func TestReleaseAdmission(t *testing.T) {
	RegisterFailHandler(Fail)
	name, suite, reporter := secondpass.Configuration("Release admission")
	RunSpecs(t, name, suite, reporter)
}

var _ = secondpass.Report()

var _ = BeforeSuite(func(ctx context.Context) {
	SetDefaultEventuallyTimeout(secondpass.Patience(soon))
	SetDefaultEventuallyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, wbv1alpha1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	var crds []string
	whereabouts := moduleDir(ctx, whereaboutsModule)
	for _, kind := range []string{"ippools", "overlappingrangeipreservations", "nodeslicepools"} {
		crds = append(crds, filepath.Join(whereabouts, "doc/crds/whereabouts.cni.cncf.io_"+kind+".yaml"))
	}
	var err error
	plane, err = controlplane.Start(ctx, controlplane.Options{
		CRDs:      append(crds, filepath.Join(repository, "config/crd/bases")),
		Scheduler: true, ServiceAccountAdmission: true, NodeMonitorGracePeriod: time.Hour, Log: GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	admin, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	createNode(ctx, nodeA)
	createNode(ctx, nodeB)
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}})).To(Succeed())
	create(ctx, rendered(ctx, "config/rbac"))
	for _, file := range []string{"doc/crds/daemonset-install.yaml", "doc/crds/reconciler-deployment.yaml"} {
		content, err := os.ReadFile(filepath.Join(whereabouts, file))
		Expect(err).NotTo(HaveOccurred())
		// The manifests' tag is latest, of which nobody can tell whether the reconciler shares the DaemonSet's pods.
		create(ctx, bytes.ReplaceAll(content, []byte("whereabouts:latest"), []byte("whereabouts:v0.9.4")))
	}
	startGuard(ctx)
}, NodeTimeout(startTimeout))

// moduleDir is where Go keeps a module that go.mod names.
func moduleDir(ctx context.Context, module string) string {
	GinkgoHelper()
	return strings.TrimSpace(string(output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)))
}

// rendered is the output of kustomize for a folder of the repository.
func rendered(ctx context.Context, folder string) []byte {
	GinkgoHelper()
	return output(ctx, "go", "tool", "-modfile=hack/tools/kustomize/go.mod", "kustomize", "build", folder)
}

func output(ctx context.Context, name string, args ...string) []byte {
	GinkgoHelper()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = repository
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "running %s %s", name, strings.Join(args, " "))
	return out
}

// create creates every object of a YAML stream.
func create(ctx context.Context, content []byte) {
	GinkgoHelper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return
		}
		Expect(err).NotTo(HaveOccurred())
		if len(object.Object) == 0 { // only a comment
			continue
		}
		Expect(admin.Create(ctx, object)).To(Succeed(), "creating %s %s", object.GetKind(), object.GetName())
	}
}
