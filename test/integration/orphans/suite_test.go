// SPDX-License-Identifier: Apache-2.0

// Package orphans_test runs the manager, and the real agents of some nodes on runtimes of the test, each under its real identity and with the
// policies of the installation, against a real control plane: what becomes of addresses whose owner nobody can tell.
package orphans_test

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/internal/testing/admission"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	// soon bounds what a handshake with all nodes takes; on a busy machine that is many seconds.
	soon = 90 * time.Second
	// settled is for how long a state that must not change is watched, and settledSoon in the second pass.
	settled     = 3 * time.Second
	settledSoon = time.Second
	// pollInterval is how often a condition is looked at.
	pollInterval = 50 * time.Millisecond

	repository = "../../.."
)

var (
	plane *controlplane.ControlPlane
	// admin is uncached and allowed everything that the policies let anybody do: the test's own eyes and hands.
	admin client.Client
	// warden has the manager's identity, which alone may take records away.
	warden client.Client
	scheme = runtime.NewScheme()
)

func TestOrphans(t *testing.T) {
	RegisterFailHandler(Fail)
	name, suite, reporter := secondpass.Configuration("Orphans")
	RunSpecs(t, name, suite, reporter)
}

var _ = secondpass.Report()

var _ = BeforeSuite(func(ctx context.Context) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(secondpass.Patience(soon))
	SetDefaultEventuallyPollingInterval(pollInterval)
	SetDefaultConsistentlyDuration(settled)
	if secondpass.On() {
		SetDefaultConsistentlyDuration(settledSoon)
	}
	SetDefaultConsistentlyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, wbv1alpha1.AddToScheme, nadv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	var err error
	plane, err = controlplane.Start(ctx, controlplane.Options{
		CRDs: []string{filepath.Join(repository, "config/crd/bases"), moduleFile("github.com/k8snetworkplumbingwg/whereabouts", "doc/crds"),
			moduleFile("github.com/k8snetworkplumbingwg/network-attachment-definition-client", "artifacts/networks-crd.yaml")},
		NodeMonitorGracePeriod: time.Hour,
		Log:                    GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	admin, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	install(ctx)
	identity, err := plane.ServiceAccountConfig(ctx, managerNamespace, app.Name, nil)
	Expect(err).NotTo(HaveOccurred())
	warden, err = client.New(identity, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
})

// notHere are the kinds of an installation that this suite starts itself, or that would call what does not run here.
var notHere = []string{"CustomResourceDefinition", "Deployment", "DaemonSet", "PodDisruptionBudget", "Service", "Certificate", "Issuer",
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}

// install applies accounts, rights and policies as they are installed, namespaces first.
func install(ctx context.Context) {
	GinkgoHelper()
	objects := rendered("config/default")
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	for _, object := range objects {
		if !slices.Contains(notHere, object.GetKind()) {
			// The administrator writes what the nodes of this suite report.
			Expect(admission.TrustKubelets(object, "admin")).To(Succeed())
			Expect(client.IgnoreAlreadyExists(admin.Create(ctx, object))).To(Succeed(), "creating %s %s", object.GetKind(), object.GetName())
		}
	}
}

func rank(object *unstructured.Unstructured) int {
	if object.GetKind() == "Namespace" {
		return 0
	}
	return 1
}

// rendered is what kustomize makes of a folder of the repository.
func rendered(folder string) []*unstructured.Unstructured {
	GinkgoHelper()
	command := exec.Command("go", "tool", "-modfile=hack/tools/kustomize/go.mod", "kustomize", "build", folder)
	command.Dir = repository
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "rendering %s", folder)
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(string(out)), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred())
		objects = append(objects, object)
	}
}

// moduleFile is a path inside the folder of a Go module.
func moduleFile(module, path string) string {
	GinkgoHelper()
	command := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	command.Dir = repository
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "finding the folder of module %s", module)
	return filepath.Join(strings.TrimSpace(string(out)), path)
}
