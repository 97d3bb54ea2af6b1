// SPDX-License-Identifier: Apache-2.0

// Package lifecycle_test runs the manager's controllers, under its real RBAC identity, against a real control plane with the
// real controller manager: the life and the end of guarded pods.
package lifecycle_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	// soon bounds what a controller does at once; on a busy machine that is seconds.
	soon = time.Minute
	// podGCSoon bounds PodGC: a round every 20s after a quarantine of 40s.
	podGCSoon = 3 * time.Minute
	// settled is for how long a state that must not change is watched, and settledSoon in the second pass, which comes to the
	// same states by other ways.
	settled     = 3 * time.Second
	settledSoon = time.Second
	// pollInterval is how often a condition is looked at.
	pollInterval = 50 * time.Millisecond

	repository = "../../.."
)

var (
	plane *controlplane.ControlPlane
	// admin is uncached and allowed everything: the test's own eyes and hands.
	admin  client.Client
	scheme = runtime.NewScheme()
)

func TestLifecycle(t *testing.T) {
	RegisterFailHandler(Fail)
	name, suite, reporter := secondpass.Configuration("Lifecycle")
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
	installRBAC(ctx)
})

// moduleFile is a path inside the folder of a Go module.
func moduleFile(module, path string) string {
	GinkgoHelper()
	command := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	command.Dir = repository
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "finding the folder of module %s", module)
	return filepath.Join(strings.TrimSpace(string(out)), path)
}

// installRBAC applies config/rbac as it is installed.
func installRBAC(ctx context.Context) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}})).To(Succeed())
	command := exec.Command("go", "tool", "-modfile=hack/tools/kustomize/go.mod", "kustomize", "build", "config/rbac")
	command.Dir = repository
	rendered, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "rendering config/rbac")
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(string(rendered)), 4096)
	for {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object); err != nil {
			break
		}
		Expect(admin.Create(ctx, &object)).To(Succeed(), "creating %s %s", object.GetKind(), object.GetName())
	}
	var role rbacv1.ClusterRole
	Expect(admin.Get(ctx, client.ObjectKey{Name: "holdfast-manager"}, &role)).To(Succeed())
}
