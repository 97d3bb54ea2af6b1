// SPDX-License-Identifier: Apache-2.0

// Package repair_test has the manager put right, on a real control plane, what whereabouts' records say wrong: reservations that
// are missing, another pod's, or nobody's; addresses in two pools; entries in slices that moved. The entries and reservations
// that are right were made by whereabouts' own allocator.
package repair_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
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

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	// soon bounds what takes seconds on an idle machine.
	soon = 2 * time.Minute
	// startTimeout bounds the build of the allocator and the start of the control plane.
	startTimeout = 5 * time.Minute
	// pollInterval is how often a condition is looked at.
	pollInterval = 50 * time.Millisecond

	repository       = "../../.."
	managerNamespace = "holdfast-system"
	// poolNamespace is where whereabouts has its objects.
	poolNamespace = "kube-system"
)

var (
	plane *controlplane.ControlPlane
	// admin is uncached and allowed everything.
	admin  client.Client
	scheme = runtime.NewScheme()

	// allocator is whereabouts' ADD as a command.
	allocator string
)

func TestRepair(t *testing.T) {
	RegisterFailHandler(Fail)
	name, suite, reporter := secondpass.Configuration("Repair")
	RunSpecs(t, name, suite, reporter)
}

var _ = secondpass.Report()

// tellsWrites: a write whose answer is lost, as in the second pass, has no event and no line in a record; and a line that is refused is
// lost where the next audit has nothing to repair any more.
func tellsWrites() bool { return !secondpass.On() }

var _ = BeforeSuite(func(ctx context.Context) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(secondpass.Patience(soon))
	SetDefaultEventuallyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, wbv1alpha1.AddToScheme, nadv1.AddToScheme, v1alpha1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	// Built with the modules of hack/dev: whereabouts' own need more than this module has.
	allocator = filepath.Join(GinkgoT().TempDir(), "allocate")
	output(ctx, "go", "-C", "hack/dev", "build", "-o", allocator, "../../test/integration/slices/testdata/allocate/main.go")
	var err error
	plane, err = controlplane.Start(ctx, controlplane.Options{
		CRDs: []string{
			filepath.Join(repository, "config/crd/bases"),
			moduleFile(ctx, "github.com/k8snetworkplumbingwg/whereabouts", "doc/crds"),
			moduleFile(ctx, "github.com/k8snetworkplumbingwg/network-attachment-definition-client", "artifacts/networks-crd.yaml"),
		},
		NodeMonitorGracePeriod: time.Hour, NodeStartupGracePeriod: time.Hour, Log: GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	admin, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	installRBAC(ctx)
}, NodeTimeout(startTimeout))

// moduleFile is a path inside the folder of a module that go.mod names.
func moduleFile(ctx context.Context, module, path string) string {
	GinkgoHelper()
	return filepath.Join(strings.TrimSpace(output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)), path)
}

// output runs a command in the repository and gives what it printed.
func output(ctx context.Context, name string, args ...string) string {
	GinkgoHelper()
	var stderr strings.Builder
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Stderr = repository, &stderr
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "%s %s: %s", name, strings.Join(args, " "), &stderr)
	return string(out)
}

// installRBAC applies config/rbac as it is installed: the manager has these rights and no others.
func installRBAC(ctx context.Context) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}})).To(Succeed())
	rendered := output(ctx, "go", "tool", "-modfile=hack/tools/kustomize/go.mod", "kustomize", "build", "config/rbac")
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(rendered), 4096)
	for {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object); err != nil {
			break
		}
		Expect(admin.Create(ctx, &object)).To(Succeed(), "creating %s %s", object.GetKind(), object.GetName())
	}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: "holdfast-manager"}, &corev1.ServiceAccount{})).To(Succeed())
}
