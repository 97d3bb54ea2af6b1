// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

// authority is one that signs clients' certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	key, der := sign(t, template, nil)
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{certificate, key}
}

// sign signs with the authority's key, or with its own.
func sign(t *testing.T, template *x509.Certificate, by *authority) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

func (a authority) client(t *testing.T) tls.Certificate {
	t.Helper()
	key, der := sign(t, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "apiserver"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, &a)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

func TestClientsAreAskedForACertificateOnlyWhereAnAuthorityIsConfigured(t *testing.T) {
	for _, file := range []string{"", "/ca.crt"} {
		configured := configv1alpha1.Server{WebhookPort: new(int32(9443)), ClientCAFile: file}
		server, ok := newWebhookServer(configured, Options{}, &lifecycle{}).Server.(*webhook.DefaultServer)
		if !ok {
			t.Fatal("the webhook server is not controller-runtime's")
		}
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		for _, option := range server.Options.TLSOpts {
			option(config)
		}
		if asked := config.GetConfigForClient != nil; asked != (file != "") {
			t.Errorf("with clientCAFile %q clients are asked: %t", file, asked)
		}
	}
}

func TestAReadinessProbeNeedsNoClientCertificate(t *testing.T) {
	known := newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, known.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	server := serve(t, known, file, func(http.ResponseWriter, *http.Request) {})
	connection, err := tls.Dial("tcp", server.Listener.Addr().String(), insecure()) // as controller-runtime's StartedChecker does
	if err != nil {
		t.Fatal(err)
	}
	if err := connection.Close(); err != nil {
		t.Error(err)
	}
}

// serve serves with a certificate of the authority, and asks for one of the file.
func serve(t *testing.T, by authority, file string, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	certificate := by.client(t)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }}
	askClients(server.TLS, file)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// insecure is a client's configuration: it is the client that is tested.
func insecure() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true} //nolint:gosec // see above
}

func TestOnlyAClientOfTheAuthorityReachesTheWebhooks(t *testing.T) {
	known, stranger := newAuthority(t), newAuthority(t)
	cases := map[string]struct {
		file    []byte
		present *authority
		reached bool
	}{
		"the API server's certificate":                      {known.pem(), &known, true},
		"no certificate":                                    {known.pem(), nil, false},
		"a certificate of another authority":                {known.pem(), &stranger, false},
		"the second of two authorities":                     {append(stranger.pem(), known.pem()...), &known, true},
		"a file without a certificate refuses every client": {[]byte("none"), &known, false},
		"a missing file refuses every client":               {nil, &known, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ca.crt")
			if tc.file != nil {
				if err := os.WriteFile(file, tc.file, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			reached := false
			server := serve(t, known, file, func(http.ResponseWriter, *http.Request) { reached = true })
			transport := &http.Transport{TLSClientConfig: insecure()}
			defer transport.CloseIdleConnections()
			if tc.present != nil {
				transport.TLSClientConfig.Certificates = []tls.Certificate{tc.present.client(t)}
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if err == nil {
				_ = response.Body.Close()
			}
			if reached != tc.reached || (err == nil) != tc.reached {
				t.Errorf("reached is %t with the error %v, want %t", reached, err, tc.reached)
			}
		})
	}
}
