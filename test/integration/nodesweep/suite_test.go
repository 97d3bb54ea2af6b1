// SPDX-License-Identifier: Apache-2.0

// Package nodesweep_test runs the sweeper of node-scoped resources, under the manager's real RBAC identity, on a real control
// plane with the IPAMs' own definitions. The garbage collector is off: a stale object then stays until the sweeper, or a
// spec, takes it away. Specs set the clock of every delay, and the API server's answers where they have to fail.
package nodesweep_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
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

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	// soon bounds what takes seconds on an idle machine: events settle for two, and a failed sweep backs off.
	soon = time.Minute
	// startTimeout bounds the start of everything.
	startTimeout = 5 * time.Minute
	// pollInterval is how often a condition is looked at.
	pollInterval = 50 * time.Millisecond
	// settled is for how long a state that must not change is watched: several short sweep intervals.
	settled = time.Second

	repository       = "../../.."
	managerNamespace = "holdfast-system"
	managerAccount   = "holdfast-manager"
)

// specTimeout bounds a spec: several such waits.
var specTimeout = secondpass.Patience(5 * time.Minute)

var (
	plane *controlplane.ControlPlane
	// admin is uncached and allowed everything: the test's own eyes and hands.
	admin  client.Client
	scheme = runtime.NewScheme()
)

func TestNodeSweep(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	name, suite, reporter := secondpass.Configuration("Sweep of node-scoped resources")
	RunSpecs(t, name, suite, reporter)
}

var _ = secondpass.Report()

var _ = BeforeSuite(func(ctx context.Context) {
	SetDefaultEventuallyTimeout(secondpass.Patience(soon))
	SetDefaultEventuallyPollingInterval(pollInterval)
	SetDefaultConsistentlyDuration(settled)
	SetDefaultConsistentlyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	crds, err := nodecrds.Paths(ctx)
	Expect(err).NotTo(HaveOccurred())
	plane, err = controlplane.Start(ctx, controlplane.Options{
		CRDs: append(crds, filepath.Join(repository, "config/crd/bases")), NodeMonitorGracePeriod: time.Hour,
		ControllerManagerArgs: map[string]string{"controllers": "*,-garbage-collector-controller"}, Log: GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	admin, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}})).To(Succeed())
	installRBAC(ctx)
	for _, resource := range grantedResources {
		grant(ctx, resource.Resource, resource, "get", "list", "delete")
	}
}, NodeTimeout(startTimeout))

// installRBAC applies config/rbac as it is installed.
func installRBAC(ctx context.Context) {
	GinkgoHelper()
	command := exec.CommandContext(ctx, "go", "tool", "-modfile=hack/tools/kustomize/go.mod", "kustomize", "build", "config/rbac")
	command.Dir, command.Stderr = repository, GinkgoWriter
	rendered, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "rendering config/rbac")
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			Fail("decoding config/rbac: " + err.Error())
		}
		if len(object.Object) > 0 {
			Expect(admin.Create(ctx, object)).To(Succeed(), "creating %s %s", object.GetKind(), object.GetName())
		}
	}
}
