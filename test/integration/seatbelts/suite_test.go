// SPDX-License-Identifier: Apache-2.0

// Package seatbelts_test shows on a real API server what the policies of config/policies let each account write: the tokens are those
// that the API server issues for pods bound to nodes.
package seatbelts_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

const (
	// soon bounds what takes milliseconds on an idle machine.
	soon = time.Minute
	// startTimeout bounds the start of everything.
	startTimeout = 5 * time.Minute
	// pollInterval is how often a condition is looked at.
	pollInterval = 50 * time.Millisecond

	repository = "../../.."
)

var (
	plane *controlplane.ControlPlane
	// admin is uncached and allowed everything by RBAC; the policies are about it too.
	admin  client.Client
	scheme = runtime.NewScheme()
)

func TestSeatbelts(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Seatbelts")
}

var _ = BeforeSuite(func(ctx context.Context) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(soon)
	SetDefaultEventuallyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme, wbv1alpha1.AddToScheme, nadv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	var err error
	plane, err = controlplane.Start(ctx, controlplane.Options{
		CRDs: []string{filepath.Join(repository, "config/crd/bases"), moduleFile("github.com/k8snetworkplumbingwg/whereabouts", "doc/crds"),
			moduleFile("github.com/k8snetworkplumbingwg/network-attachment-definition-client", "artifacts/networks-crd.yaml")},
		NodeMonitorGracePeriod: time.Hour, Log: GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	admin, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	install(ctx)
	createWorld(ctx)
	awaitPolicies(ctx)
}, NodeTimeout(startTimeout))

// notHere are the kinds of an installation without which the accounts and the policies are complete: nothing of ours runs in a pod,
// and no webhook is called.
var notHere = []string{"CustomResourceDefinition", "Deployment", "DaemonSet", "PodDisruptionBudget", "Service", "Certificate", "Issuer",
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}

// install applies the installation as it is rendered, namespaces first.
func install(ctx context.Context) {
	GinkgoHelper()
	objects := rendered("config/default")
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	for _, object := range objects {
		if !slices.Contains(notHere, object.GetKind()) {
			Expect(admin.Create(ctx, object)).To(Succeed(), "creating %s %s", object.GetKind(), object.GetName())
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
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(run("go", "tool", "-modfile=hack/tools/kustomize/go.mod", "kustomize", "build", folder)), 4096)
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
	return filepath.Join(strings.TrimSpace(run("go", "list", "-m", "-f", "{{.Dir}}", module)), path)
}

// run runs a command in the repository and gives what it printed.
func run(name string, args ...string) string {
	GinkgoHelper()
	var stderr strings.Builder
	command := exec.Command(name, args...)
	command.Dir, command.Stderr = repository, &stderr
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "%s %s: %s", name, strings.Join(args, " "), &stderr)
	return string(out)
}

var _ = Describe("The policies", func() {
	It("have expressions that fit the types that they are about", func(ctx context.Context) {
		var policies admissionregistrationv1.ValidatingAdmissionPolicyList
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.List(ctx, &policies)).To(Succeed())
			g.Expect(policies.Items).To(HaveLen(len(reportpolicy.Installed)))
			for i := range policies.Items {
				g.Expect(policies.Items[i].Status.ObservedGeneration).To(Equal(policies.Items[i].Generation))
			}
		}).Should(Succeed())
		for i := range policies.Items {
			Expect(policies.Items[i].Status.TypeChecking).NotTo(BeNil(), policies.Items[i].Name)
			Expect(policies.Items[i].Status.TypeChecking.ExpressionWarnings).To(BeEmpty(), policies.Items[i].Name)
		}
	}, SpecTimeout(soon))

	It("know the manager by the name that kustomize gives its account", func() {
		folder := filepath.Join(GinkgoT().TempDir(), "config")
		Expect(os.CopyFS(folder, os.DirFS(filepath.Join(repository, "config")))).To(Succeed())
		path := filepath.Join(folder, "default", "kustomization.yaml")
		content, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(path, append([]byte("namePrefix: other-\n"), content...), 0o600)).To(Succeed())
		named := 0
		for _, object := range rendered(filepath.Dir(path)) {
			if object.GetKind() != "ValidatingAdmissionPolicy" {
				continue
			}
			policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, policy, true)).To(Succeed())
			for _, condition := range policy.Spec.MatchConditions {
				if strings.Contains(condition.Expression, managerNamespace) {
					named++
					Expect(condition.Expression).To(MatchRegexp(
						`^request.userInfo.username [!=]= \["system:serviceaccount", "holdfast-system", "other-holdfast-manager"\].join\(":"\)$`), policy.Name)
				}
			}
		}
		Expect(named).To(Equal(4))
	})

	It("are each bound to everything, and deny", func(ctx context.Context) {
		var policies admissionregistrationv1.ValidatingAdmissionPolicyList
		Expect(admin.List(ctx, &policies)).To(Succeed())
		var names []string
		for i := range policies.Items {
			names = append(names, policies.Items[i].Name)
			var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(&policies.Items[i]), &binding)).To(Succeed())
			Expect(binding.Spec.MatchResources).To(BeNil(), binding.Name)
			Expect(binding.Spec.ValidationActions).To(ConsistOf(admissionregistrationv1.Deny), binding.Name)
		}
		Expect(names).To(ConsistOf(reportpolicy.Installed))
		var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
		Expect(admin.List(ctx, &bindings)).To(Succeed())
		Expect(reportpolicy.Evidence(policies.Items, bindings.Items).Problem).To(BeEmpty())
	}, SpecTimeout(soon))
})
