// SPDX-License-Identifier: Apache-2.0

// Package shadow_test runs the manager in mode Shadow on a real control plane, with its webhooks registered as they are
// installed, in a cluster where mode Guard would stamp, refuse, repair and delete; and then, on the very same facts, in Guard.
// Every write that the manager makes is looked at as it leaves the process, and so is every one of the agents, which run as they are
// and do not know of modes.
package shadow_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/internal/testing/admission"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/nodecrds"
)

const (
	// soon bounds what takes seconds on an idle machine.
	soon = 2 * time.Minute
	// startTimeout bounds the start of the control plane.
	startTimeout = 5 * time.Minute
	// quiet is for how long nothing may happen, after everything was reported.
	quiet        = 3 * time.Second
	pollInterval = 50 * time.Millisecond

	// sandboxCreationMax is that of the manager and of the agents.
	sandboxCreationMax = time.Second

	repository       = "../../.."
	managerNamespace = "holdfast-system"
	agentNamespace   = "holdfast-agent"
	agentAccount     = "holdfast-agent"
	// poolNamespace is where whereabouts has its objects.
	poolNamespace = "kube-system"
)

var (
	plane *controlplane.ControlPlane
	// admin is uncached, allowed everything, and nobody whom the manager trusts; it keeps the warnings that it gets.
	admin  client.Client
	warned *warnings
	// keeper has the manager's identity, which alone may take records away.
	keeper client.Client
	scheme = runtime.NewScheme()
)

func TestShadow(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Shadow")
}

var _ = BeforeSuite(func(ctx context.Context) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(soon)
	SetDefaultEventuallyPollingInterval(pollInterval)
	SetDefaultConsistentlyDuration(quiet)
	SetDefaultConsistentlyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, wbv1alpha1.AddToScheme, nadv1.AddToScheme, v1alpha1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	crds, err := nodecrds.Paths(ctx)
	Expect(err).NotTo(HaveOccurred())
	plane, err = controlplane.Start(ctx, controlplane.Options{
		CRDs: append(crds, filepath.Join(repository, "config/crd/bases"),
			moduleFile(ctx, "github.com/k8snetworkplumbingwg/whereabouts", "doc/crds"),
			moduleFile(ctx, "github.com/k8snetworkplumbingwg/network-attachment-definition-client", "artifacts/networks-crd.yaml")),
		NodeMonitorGracePeriod: time.Hour, NodeStartupGracePeriod: time.Hour, Log: GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	warned = &warnings{}
	identity := plane.Config()
	identity.WarningHandler = warned
	admin, err = client.New(identity, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	install(ctx)
	own, err := plane.ServiceAccountConfig(ctx, managerNamespace, app.Name, nil)
	Expect(err).NotTo(HaveOccurred())
	keeper, err = client.New(own, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
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

// notHere are the kinds of an installation that this suite runs itself, or that would call what does not run here.
var notHere = []string{"CustomResourceDefinition", "Deployment", "DaemonSet", "PodDisruptionBudget", "Service", "Certificate", "Issuer",
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}

// install applies accounts, rights and policies as they are installed, namespaces first, and the rights that a preset for HostSubnets
// brings: what is not done is left undone by choice, not for want of a right.
func install(ctx context.Context) {
	GinkgoHelper()
	all := objects(output(ctx, "go", "tool", "-modfile=hack/tools/kustomize/go.mod", "kustomize", "build", "config/default"))
	for _, namespaces := range []bool{true, false} {
		for _, object := range all {
			if (object.GetKind() == "Namespace") == namespaces && !slices.Contains(notHere, object.GetKind()) {
				// The administrator writes what the nodes of this suite report.
				Expect(admission.TrustKubelets(object, "admin")).To(Succeed())
				Expect(client.IgnoreAlreadyExists(admin.Create(ctx, object))).To(Succeed(), "creating %s %s", object.GetKind(), object.GetName())
			}
		}
	}
	grantHostSubnets(ctx)
}

// objects are those of a manifest.
func objects(manifest string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		if decoder.Decode(object) != nil {
			return all
		}
		all = append(all, object)
	}
}
