// SPDX-License-Identifier: Apache-2.0

// Package nodepolicy_test runs the keeper of the NodeResourcePolicies' webhooks, under the manager's real RBAC identity, on a
// real control plane with the real garbage collector.
package nodepolicy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	// soon bounds what takes milliseconds on an idle machine.
	soon = time.Minute
	// collectedSoon bounds the real garbage collector, which tries an object again after a while.
	collectedSoon = 2 * time.Minute
	// startTimeout bounds the start of everything.
	startTimeout = 5 * time.Minute
	// pollInterval is how often a condition is looked at.
	pollInterval = 50 * time.Millisecond
	// settled is for how long a state that must not change is watched.
	settled = 3 * time.Second

	repository       = "../../.."
	managerNamespace = "holdfast-system"
	managerAccount   = "holdfast-manager"
)

var (
	// specTimeout bounds a spec: several of the waits above.
	specTimeout = secondpass.Patience(2 * collectedSoon)
	// collectorSpecTimeout bounds one that waits for the garbage collector more than once.
	collectorSpecTimeout = secondpass.Patience(2 * startTimeout)
)

var (
	plane *controlplane.ControlPlane
	// admin is uncached and allowed everything: the test's own eyes and hands.
	admin  client.Client
	scheme = runtime.NewScheme()
)

func TestNodePolicy(t *testing.T) {
	RegisterFailHandler(Fail)
	name, suite, reporter := secondpass.Configuration("Node resource policies")
	RunSpecs(t, name, suite, reporter)
}

var _ = secondpass.Report()

var _ = BeforeSuite(func(ctx context.Context) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(secondpass.Patience(soon))
	SetDefaultEventuallyPollingInterval(pollInterval)
	SetDefaultConsistentlyDuration(settled)
	SetDefaultConsistentlyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, apiextensionsv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	var err error
	plane, err = controlplane.Start(ctx, controlplane.Options{
		CRDs: []string{filepath.Join(repository, "config/crd/bases")}, NodeMonitorGracePeriod: time.Hour, Log: GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	admin, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}})).To(Succeed())
	create(ctx, rendered(ctx, "config/rbac"))
	createDefinition(ctx, "gadgets", definedVersion{name: "v1", status: true}, definedVersion{name: "v1beta1"})
	createDefinition(ctx, "plains", definedVersion{name: "v1"})
}, NodeTimeout(startTimeout))

// Every spec begins and ends with no policy and no configuration.
var _ = AfterEach(func(ctx context.Context) {
	Expect(admin.DeleteAllOf(ctx, &v1alpha1.NodeResourcePolicy{})).To(Succeed())
	Eventually(func(g Gomega) {
		var left v1alpha1.NodeResourcePolicyList
		g.Expect(admin.List(ctx, &left)).To(Succeed())
		g.Expect(left.Items).To(BeEmpty())
	}).Should(Succeed())
	Expect(client.IgnoreNotFound(admin.Delete(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: noderesource.ConfigurationName}}))).To(Succeed())
	Expect(client.IgnoreNotFound(admin.Delete(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: noderesource.StampConfigurationName}}))).To(Succeed())
}, NodeTimeout(specTimeout))

// rendered is the output of kustomize for a folder of the repository.
func rendered(ctx context.Context, folder string) []byte {
	GinkgoHelper()
	command := exec.CommandContext(ctx, "go", "tool", "-modfile=hack/tools/kustomize/go.mod", "kustomize", "build", folder)
	command.Dir, command.Stderr = repository, GinkgoWriter
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "rendering %s", folder)
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
		if len(object.Object) > 0 { // else only a comment
			Expect(admin.Create(ctx, object)).To(Succeed(), "creating %s %s", object.GetKind(), object.GetName())
		}
	}
}

// guardedGroup is the group of the suite's own resources.
const guardedGroup = "machines.example.com"

// definedVersion is a version of a resource of the suite.
type definedVersion struct {
	name   string
	status bool
}

// definition defines a cluster-scoped resource of the suite; the first version is stored.
func definition(plural string, versions ...definedVersion) *apiextensionsv1.CustomResourceDefinition {
	singular := strings.TrimSuffix(plural, "s")
	kind := strings.ToUpper(singular[:1]) + singular[1:]
	object := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + guardedGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: guardedGroup,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: singular, Kind: kind, ListKind: kind + "List"},
			Scope: apiextensionsv1.ClusterScoped,
		},
	}
	for i, version := range versions {
		defined := apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version.name, Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", XPreserveUnknownFields: new(true)}},
		}
		if version.status {
			defined.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
		}
		object.Spec.Versions = append(object.Spec.Versions, defined)
	}
	return object
}

func createDefinition(ctx context.Context, plural string, versions ...definedVersion) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	object := definition(plural, versions...)
	Expect(admin.Create(ctx, object)).To(Succeed())
	return object
}
