// SPDX-License-Identifier: Apache-2.0

// Package protection shows on a real API server who is protected: by the webhook behind the conditions of its manifest,
// and by the admission policy that can take its place.
package protection

import (
	"context"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/holdfast-dev/holdfast/internal/protection"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	// apps is the namespace of the pods; quiet opted out by its label; agents is that of the node agents.
	apps, quiet, agents = "apps", "quiet", "holdfast-agent"
)

// networks are the definitions in the namespace apps, by name.
var networks = map[string]string{
	"blue":         `{"cniVersion":"0.3.1","name":"wb","type":"macvlan","ipam":{"type":"whereabouts","range":"192.168.2.0/29"}}`,
	"grey":         `{"cniVersion":"0.3.1","type":"macvlan","ipam":{"type":"host-local"}}`,
	"unknown-ipam": `{"cniVersion":"0.3.1","type":"macvlan","ipam":{"type":"acme-ipam"}}`,
	"broken":       `{"cniVersion":"0.3.1",`,
}

var (
	plane = fixture.Plane
	// admin may do everything; what the API server warns it of is in warned.
	admin  client.Client
	warned fixture.Warnings
	hooks  *envtest.WebhookInstallOptions
)

var suite = fixture.NewSuite("protection", fixture.PlaneOne, func(ctx context.Context) {
	config := plane.Config()
	config.WarningHandlerWithContext = &warned
	admin = fixture.Client(config)
	fixture.CreateNamespace(ctx, apps)
	fixture.CreateNamespace(ctx, agents)
	fixture.CreateNamespace(ctx, quiet, map[string]string{"holdfast.dev/guard": "off"})
	for name, config := range networks {
		define(ctx, apps, name, config)
	}
	define(ctx, metav1.NamespaceSystem, "base", networks["blue"])

	hooks = &envtest.WebhookInstallOptions{Paths: []string{fixture.Path("config/webhook/protect.yaml")}}
	Expect(hooks.Install(plane.Config())).To(Succeed())
	DeferCleanup(func() { Expect(hooks.Cleanup()).To(Succeed()) })
	replica.start(protection.Rules{})
	DeferCleanup(replica.stop)
	awaitProtection(ctx)
})

func define(ctx context.Context, namespace, name, config string) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: config},
	})).To(Succeed())
}

// render is the webhook's manifest with components of config/components.
func render(components ...string) []*unstructured.Unstructured {
	GinkgoHelper()
	return fixture.Kustomization{Resources: []string{"config/webhook/protect.yaml"}, Components: components}.Objects()
}

// rendered is the webhook's configuration with these components.
func rendered(components ...string) *admissionregistrationv1.MutatingWebhookConfiguration {
	GinkgoHelper()
	return fixture.Find[*admissionregistrationv1.MutatingWebhookConfiguration](render(components...), "holdfast-protect")
}

// webhookConfiguration is the one on the API server.
func webhookConfiguration(ctx context.Context) *admissionregistrationv1.MutatingWebhookConfiguration {
	GinkgoHelper()
	live := &admissionregistrationv1.MutatingWebhookConfiguration{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: "holdfast-protect"}, live)).To(Succeed())
	return live
}
