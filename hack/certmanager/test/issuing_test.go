// SPDX-License-Identifier: Apache-2.0

package certmanager_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"time"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const webhookHost = "holdfast-webhook." + namespace + ".svc"

var _ = Describe("cert-manager with config/certmanager", Ordered, func() {
	BeforeAll(func(ctx context.Context) {
		kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(repository, "config/certmanager"))
	})

	It("issues the authority and the certificate of the webhooks", func(ctx context.Context) {
		eventuallyReady(ctx, "holdfast-ca")
		eventuallyReady(ctx, "holdfast-webhook")

		// cert-manager may issue an authority twice when its caches are late. The leaf keeps the one that signed it, which is the one that the webhooks get.
		Expect(verify(secret(ctx, "holdfast-webhook-cert"))).To(HaveField("Issuer.CommonName", "holdfast-ca"))
	})

	It("writes the authority into the webhooks that ask for it", func(ctx context.Context) {
		webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{
				Name:        "test",
				Annotations: map[string]string{"cert-manager.io/inject-ca-from": namespace + "/holdfast-webhook"},
			},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name:                    "test.holdfast.dev",
				AdmissionReviewVersions: []string{"v1"},
				SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
				ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
			}},
		}
		Expect(admin.Create(ctx, webhook)).To(Succeed())
		want := secret(ctx, "holdfast-webhook-cert").Data[cmmeta.TLSCAKey]
		Eventually(func(ctx context.Context) ([]byte, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(webhook), webhook)
			return webhook.Webhooks[0].ClientConfig.CABundle, err
		}).WithContext(ctx).Should(Equal(want))
	})

	It("renews the certificate under the same authority, with another key", func(ctx context.Context) {
		before := secret(ctx, "holdfast-webhook-cert")
		certificate := &certmanagerv1.Certificate{}
		Expect(admin.Get(ctx, key("holdfast-webhook"), certificate)).To(Succeed())
		// What `cmctl renew` writes.
		base := client.MergeFrom(certificate.DeepCopy())
		certificate.Status.Conditions = append(certificate.Status.Conditions, certmanagerv1.CertificateCondition{
			Type: certmanagerv1.CertificateConditionIssuing, Status: cmmeta.ConditionTrue, Reason: "ManuallyTriggered",
			LastTransitionTime: &metav1.Time{Time: time.Now()},
		})
		Expect(admin.Status().Patch(ctx, certificate, base)).To(Succeed())

		Eventually(func(ctx context.Context) []byte { return secret(ctx, "holdfast-webhook-cert").Data[corev1.TLSCertKey] }).
			WithContext(ctx).ShouldNot(Equal(before.Data[corev1.TLSCertKey]))
		after := secret(ctx, "holdfast-webhook-cert")
		Expect(after.Data[corev1.TLSPrivateKeyKey]).NotTo(Equal(before.Data[corev1.TLSPrivateKeyKey]))
		Expect(after.Data[cmmeta.TLSCAKey]).To(Equal(secret(ctx, "holdfast-ca").Data[corev1.TLSCertKey]))
		Expect(verify(after)).To(HaveField("Issuer.CommonName", "holdfast-ca"))
	})
})

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }

func eventuallyReady(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) (map[certmanagerv1.CertificateConditionType]cmmeta.ConditionStatus, error) {
		certificate := &certmanagerv1.Certificate{}
		err := admin.Get(ctx, key(name), certificate)
		conditions := map[certmanagerv1.CertificateConditionType]cmmeta.ConditionStatus{}
		for _, condition := range certificate.Status.Conditions {
			conditions[condition.Type] = condition.Status
		}
		return conditions, err
	}).WithContext(ctx).Should(HaveKeyWithValue(certmanagerv1.CertificateConditionReady, cmmeta.ConditionTrue))
}

func secret(ctx context.Context, name string) *corev1.Secret {
	GinkgoHelper()
	found := &corev1.Secret{}
	Expect(admin.Get(ctx, key(name), found)).To(Succeed())
	return found
}

// verify checks the certificate as the API server does when it calls the webhook, and returns it.
func verify(leaf *corev1.Secret) (*x509.Certificate, error) {
	pair, err := tls.X509KeyPair(leaf.Data[corev1.TLSCertKey], leaf.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(leaf.Data[cmmeta.TLSCAKey])
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: webhookHost})
	return pair.Leaf, err
}
