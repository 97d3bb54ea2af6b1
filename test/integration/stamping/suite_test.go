// SPDX-License-Identifier: Apache-2.0

// Package stamping_test shows on a real API server who is stamped: by the webhook behind the conditions of its manifest,
// and by the admission policy that can take its place.
package stamping_test

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

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/internal/protection"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	repository = "../../.."

	// startTimeout bounds the start of the control plane on a busy machine.
	startTimeout = 5 * time.Minute
	// configured bounds the time until the API server acts on a changed webhook or policy.
	configured = time.Minute
	// pollInterval is how often a condition is looked at.
	pollInterval = 50 * time.Millisecond

	// apps is the namespace of the pods; quiet opted out by its label; agents is that of the node agents.
	apps, quiet, agents = "apps", "quiet", "holdfast-agent"
)

// networks are the definitions in the namespace apps, by name.
var networks = map[string]string{
	"blue":         `{"cniVersion":"0.3.1","name":"wb","type":"macvlan","ipam":{"type":"whereabouts","range":"192.168.2.0/29"}}`,
	"listed":       `{"cniVersion":"0.3.1","name":"wb","plugins":[{"type":"tuning"},{"type":"macvlan","ipam":{"type":"whereabouts"}}]}`,
	"grey":         `{"cniVersion":"0.3.1","type":"macvlan","ipam":{"type":"host-local"}}`,
	"layer-two":    `{"cniVersion":"0.3.1","type":"macvlan"}`,
	"unknown-ipam": `{"cniVersion":"0.3.1","type":"macvlan","ipam":{"type":"acme-ipam"}}`,
	"broken":       `{"cniVersion":"0.3.1",`,
	"on-node":      ``,
}

var (
	plane *controlplane.ControlPlane
	// admin may do everything; what the API server warns it of is in warned.
	admin  client.Client
	warned = &warnings{}
	hooks  = &envtest.WebhookInstallOptions{Paths: []string{filepath.Join(repository, "config/webhook/stamp.yaml")}}
	scheme = runtime.NewScheme()
)

func TestStamping(t *testing.T) {
	RegisterFailHandler(Fail)
	name, suite, reporter := secondpass.Configuration("Stamping")
	RunSpecs(t, name, suite, reporter)
}

var _ = secondpass.Report()

var _ = BeforeSuite(func(ctx context.Context) {
	SetDefaultEventuallyTimeout(secondpass.Patience(configured))
	SetDefaultEventuallyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
	Expect(errors.Join(clientgoscheme.AddToScheme(scheme), nadv1.AddToScheme(scheme))).To(Succeed())

	definitionCRD := filepath.Join(moduleDir(ctx, "github.com/k8snetworkplumbingwg/network-attachment-definition-client"), "artifacts/networks-crd.yaml")
	var err error
	plane, err = controlplane.Start(ctx, controlplane.Options{CRDs: []string{definitionCRD}, Log: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })

	config := plane.Config()
	config.WarningHandlerWithContext = warned
	admin, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	createFixtures(ctx)

	Expect(hooks.Install(plane.Config())).To(Succeed())
	DeferCleanup(func() { Expect(hooks.Cleanup()).To(Succeed()) })
	replica.start(protection.Rules{})
	DeferCleanup(replica.stop)
	awaitStamping(ctx)
}, NodeTimeout(startTimeout))

func createFixtures(ctx context.Context) {
	GinkgoHelper()
	for _, name := range []string{apps, agents} {
		Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: quiet, Labels: map[string]string{"holdfast.dev/guard": "off"}}})).To(Succeed())
	for name, config := range networks {
		Expect(admin.Create(ctx, definition(apps, name, config))).To(Succeed())
	}
	Expect(admin.Create(ctx, definition("kube-system", "base", networks["blue"]))).To(Succeed())
	Expect(admin.Create(ctx, definition("kube-system", "plain", networks["grey"]))).To(Succeed())
}

func definition(namespace, name, config string) *nadv1.NetworkAttachmentDefinition {
	return &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: config},
	}
}

// moduleDir is where Go keeps a module that go.mod names.
func moduleDir(ctx context.Context, module string) string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(out))
}

// render is the webhook's manifest with components of config/components, as kustomize makes it.
func render(ctx context.Context, components ...string) []*unstructured.Unstructured {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	manifest, err := os.ReadFile(filepath.Join(repository, "config/webhook/stamp.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(dir, "stamp.yaml"), manifest, 0o600)).To(Succeed())
	kustomization := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [stamp.yaml]\ncomponents:\n"
	for _, component := range components {
		path, err := filepath.Abs(filepath.Join(repository, "config/components", component))
		Expect(err).NotTo(HaveOccurred())
		relative, err := filepath.Rel(dir, path) // kustomize takes no absolute path
		Expect(err).NotTo(HaveOccurred())
		kustomization += "  - " + relative + "\n"
	}
	Expect(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o600)).To(Succeed())

	command := exec.CommandContext(ctx, "go", "tool", "-modfile=hack/tools/kustomize/go.mod", "kustomize", "build", dir)
	command.Dir, command.Stderr = repository, GinkgoWriter
	rendered, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "rendering %v", components)
	return decode(rendered)
}

func decode(manifests []byte) []*unstructured.Unstructured {
	GinkgoHelper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
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

// find converts the one rendered object of that kind.
func find[T any](objects []*unstructured.Unstructured, kind string) *T {
	GinkgoHelper()
	for _, object := range objects {
		if object.GetKind() == kind {
			into := new(T)
			Expect(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true)).To(Succeed())
			return into
		}
	}
	Fail("no " + kind + " was rendered")
	return nil
}

// webhookConfiguration is the one on the API server.
func webhookConfiguration(ctx context.Context) *admissionregistrationv1.MutatingWebhookConfiguration {
	GinkgoHelper()
	live := &admissionregistrationv1.MutatingWebhookConfiguration{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: "holdfast-stamp"}, live)).To(Succeed())
	return live
}
