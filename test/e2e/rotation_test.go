// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// renewedSoon bounds how long a manager uses a certificate that was replaced: it looks every 10 seconds where the
// file system notifies no change.
const renewedSoon = 2 * time.Minute

// authority is what cert-manager's CA issuer signs with: a renewal makes another certificate of the same key, as
// rotationPolicy Never says.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	serial      int64
}

func newAuthority() *authority {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	a := &authority{key: key}
	a.renew()
	return a
}

func (a *authority) renew() {
	GinkgoHelper()
	template := a.template("holdfast-ca")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a.certificate = a.sign(template, template, &a.key.PublicKey)
}

func (a *authority) template(name string) *x509.Certificate {
	a.serial++
	return &x509.Certificate{SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
}

func (a *authority) sign(template, parent *x509.Certificate, of *ecdsa.PublicKey) *x509.Certificate {
	GinkgoHelper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, of, a.key)
	Expect(err).NotTo(HaveOccurred())
	certificate, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	return certificate
}

func (a *authority) bundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// issue puts a new serving certificate, with a new key, into a folder as the kubelet does with a Secret: a new folder beside
// the old one, and one rename of a link. It gives the serial number.
func (a *authority) issue(dir string) *big.Int {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := a.template("localhost")
	template.IPAddresses, template.ExtKeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	certificate := a.sign(template, a.certificate, &key.PublicKey)
	private, err := x509.MarshalECPrivateKey(key)
	Expect(err).NotTo(HaveOccurred())

	version := fmt.Sprintf("..%d", template.SerialNumber)
	Expect(os.Mkdir(filepath.Join(dir, version), 0o700)).To(Succeed())
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: certificate.Raw}, "tls.key": {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		Expect(os.WriteFile(filepath.Join(dir, version, name), pem.EncodeToMemory(block), 0o600)).To(Succeed())
		if _, err := os.Lstat(filepath.Join(dir, name)); os.IsNotExist(err) {
			Expect(os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name))).To(Succeed())
		}
	}
	Expect(os.Symlink(version, filepath.Join(dir, "..data_tmp"))).To(Succeed())
	Expect(os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data"))).To(Succeed())
	return template.SerialNumber
}

// served is the serial number of the certificate that a new connection gets, verified by the authority.
func (a *authority) served(ctx context.Context, address string) (*big.Int, error) {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber, nil
}

var _ = Describe("A renewed certificate", Ordered, func() {
	var (
		ca *authority
		r  *replica
	)
	BeforeAll(func(ctx context.Context) {
		apply(ctx, render("config/default"))
		// The installed webhook leads to a Service without endpoints here, and would only cost time.
		installed := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "holdfast-protect"}}
		Expect(admin.Delete(ctx, installed)).To(Succeed())
		ca, r = newAuthority(), &replica{certDir: GinkgoT().TempDir()}
		ca.issue(r.certDir)
		r.start(ctx)
		Eventually(ctx, func() int { return r.status(ctx, "/readyz") }).Should(Equal(http.StatusOK))
	})
	AfterAll(func(ctx context.Context) { apply(ctx, render("config/default")) })

	awaitServed := func(ctx context.Context, serial *big.Int) {
		GinkgoHelper()
		Eventually(ctx, func(g Gomega) {
			got, err := ca.served(ctx, r.webhooks)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Cmp(serial)).To(BeZero())
		}).WithTimeout(renewedSoon).Should(Succeed())
	}

	It("is served without a restart", func(ctx context.Context) {
		awaitServed(ctx, ca.issue(r.certDir))
		Expect(r.status(ctx, "/readyz")).To(Equal(http.StatusOK))
		Expect(r.logged("Effective configuration")).To(HaveLen(1))
	})

	It("and a renewed authority cost no call, in any order in which the API server and the manager learn of them", func(ctx context.Context) {
		configuration := protectionThrough(r.webhooks, ca.bundle())
		Expect(admin.Create(ctx, configuration)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, configuration)).To(Succeed()) })
		Eventually(ctx, func() error { return createProtected(ctx) }).Should(Succeed())
		trust := func() {
			GinkgoHelper()
			configuration.Webhooks[0].ClientConfig.CABundle = ca.bundle()
			Expect(admin.Update(ctx, configuration)).To(Succeed())
		}
		calls := keepCalling(ctx)

		By("a new serving certificate")
		awaitServed(ctx, ca.issue(r.certDir))
		calls.atLeast(ctx, 20)
		By("a new authority that the API server knows before the manager has a certificate of it")
		ca.renew()
		trust()
		calls.atLeast(ctx, 20)
		awaitServed(ctx, ca.issue(r.certDir))
		calls.atLeast(ctx, 20)
		By("a certificate of a new authority that the API server does not know yet")
		ca.renew()
		awaitServed(ctx, ca.issue(r.certDir))
		calls.atLeast(ctx, 20)
		trust()
		calls.atLeast(ctx, 20)
		Expect(calls.end()).To(BeEmpty())
	})
})

// protectionThrough is the rendered webhook that protects, at an address, failing closed so that a lost call is seen.
func protectionThrough(address string, bundle []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	GinkgoHelper()
	rendered := decodeAs[*admissionregistrationv1.MutatingWebhookConfiguration](renderWith("fail-closed"), "holdfast-protect")
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "rotation"}, Webhooks: rendered.Webhooks[:1]}
	configuration.Webhooks[0].Name = "rotation.holdfast.dev"
	configuration.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: new("https://" + address + "/mutate-pods"), CABundle: bundle}
	configuration.Webhooks[0].TimeoutSeconds = new(int32(10))
	return configuration
}

// createProtected asks the API server what would become of a pod with networks.
func createProtected(ctx context.Context) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "rotation", Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": "storage"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}}},
	}
	if err := admin.Create(ctx, pod, client.DryRunAll); err != nil {
		return err
	}
	if pod.Labels[v1alpha1.GuardedLabel] != v1alpha1.GuardedLabelValue {
		return fmt.Errorf("the pod was not protected: %v", pod.Labels)
	}
	return nil
}

// calling creates pods all the time.
type calling struct {
	stop func()

	mu       sync.Mutex
	made     int
	failures []error
}

func keepCalling(ctx context.Context) *calling {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &calling{}
	var caller sync.WaitGroup
	caller.Go(func() {
		for running.Err() == nil {
			err := createProtected(context.WithoutCancel(running))
			c.mu.Lock()
			c.made++
			if err != nil {
				c.failures = append(c.failures, err)
			}
			c.mu.Unlock()
		}
	})
	c.stop = func() { cancel(); caller.Wait() }
	DeferCleanup(c.stop)
	return c
}

// atLeast waits until so many more calls were made.
func (c *calling) atLeast(ctx context.Context, more int) {
	GinkgoHelper()
	count := func() int { c.mu.Lock(); defer c.mu.Unlock(); return c.made }
	Eventually(ctx, count).Should(BeNumerically(">=", count()+more))
}

// end gives the failures of all calls.
func (c *calling) end() []error {
	c.stop()
	return c.failures
}
