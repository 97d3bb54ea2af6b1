// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

const (
	pollInterval = 20 * time.Millisecond
	patience     = time.Minute
	forever      = time.Hour
)

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), pollInterval, patience, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v, last: %v", what, err, last)
	}
}

// writeCertificate writes a new certificate and its key, as the kubelet does at once for both, and gives it.
func writeCertificate(t *testing.T, dir string) []byte {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{keyFile: key, certificateFile: certificate} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate
}

// freePort is a port on which no process listens now.
func freePort(t *testing.T) int32 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

// startServer starts a webhook server that serves /ping. The channel gets what Start returned.
func startServer(t *testing.T, dir string, o Options) (*webhookServer, configv1alpha1.Server, <-chan error) {
	t.Helper()
	s := configv1alpha1.Server{WebhookPort: new(freePort(t)), WebhookHost: "127.0.0.1", CertDir: dir}
	server := newWebhookServer(s, o.withDefaults(), &lifecycle{})
	server.Register("/ping", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("pong")) }))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		ended <- server.Start(ctx)
	}()
	t.Cleanup(func() { stop(); <-over })
	return server, s, ended
}

func TestReadyOnlyWithCertificateAndListener(t *testing.T) {
	dir := t.TempDir()
	server, _, _ := startServer(t, dir, Options{CertificateWait: forever})
	ready := server.StartedChecker()
	err := ready(nil)
	if err == nil || !strings.Contains(err.Error(), "no usable serving certificate tls.crt and tls.key in "+dir) {
		t.Fatalf("ready without a certificate, or no message about it: %v", err)
	}
	writeCertificate(t, dir)
	eventually(t, "waiting to become ready", func() error { return ready(nil) })
}

func TestNoCertificateEndsTheManagerWithAClearError(t *testing.T) {
	dir := t.TempDir()
	_, _, ended := startServer(t, dir, Options{CertificateWait: time.Nanosecond})
	err := <-ended
	for _, want := range []string{"no serving certificate within 1ns", dir, "Certificate holdfast-webhook", "server.certDir"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error: %v", want, err)
		}
	}
}

func TestStoppingWhileWaitingForACertificateIsNoError(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	server := newWebhookServer(configv1alpha1.Server{WebhookPort: new(int32(1)), CertDir: t.TempDir()}, Options{}.withDefaults(), &lifecycle{})
	if err := server.Start(ctx); err != nil {
		t.Error(err)
	}
}

func TestCertificateIsReadAgainWithoutARestart(t *testing.T) {
	dir := t.TempDir()
	first := writeCertificate(t, dir)
	server, s, _ := startServer(t, dir, Options{})
	eventually(t, "waiting to become ready", func() error { return server.StartedChecker()(nil) })
	address := net.JoinHostPort(s.WebhookHost, portText(s))
	eventually(t, "waiting for the first certificate", func() error { return serves(address, first) })
	second := writeCertificate(t, dir)
	eventually(t, "waiting for the second certificate", func() error { return serves(address, second) })
}

// serves fails unless the server shows this certificate.
func serves(address string, certificate []byte) error {
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	defer conn.Close()
	want, err := cert.ParseCertsPEM(certificate)
	if err != nil {
		return err
	}
	if !bytes.Equal(conn.ConnectionState().PeerCertificates[0].Raw, want[0].Raw) {
		return errors.New("another certificate is served")
	}
	return nil
}

func TestDrainingEndsConnectionsAfterAResponse(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			certificate := writeCertificate(t, dir)
			server, s, _ := startServer(t, dir, Options{})
			eventually(t, "waiting to become ready", func() error { return server.StartedChecker()(nil) })
			client := clientOf(t, certificate, http2)
			url := "https://" + net.JoinHostPort(s.WebhookHost, portText(s)) + "/ping"

			if _, reused := get(t, client, url, name); reused {
				t.Fatal("the first request cannot reuse a connection")
			}
			if _, reused := get(t, client, url, name); !reused {
				t.Fatal("a connection is kept while the manager serves")
			}
			server.state.draining.Store(true)
			if _, reused := get(t, client, url, name); !reused {
				t.Fatal("the connection must live until its next response")
			}
			eventually(t, "waiting for a new connection", func() error {
				if _, reused := get(t, client, url, name); reused {
					return errors.New("the connection is still used")
				}
				return nil
			})
		})
	}
}

func clientOf(t *testing.T, certificate []byte, http2 bool) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	transport := &http.Transport{ForceAttemptHTTP2: http2, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}}
	if !http2 {
		transport.TLSClientConfig.NextProtos = nil
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func get(t *testing.T, client *http.Client, url, protocol string) (status int, reused bool) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body := new(bytes.Buffer)
	if _, err := body.ReadFrom(response.Body); err != nil || body.String() != "pong" {
		t.Fatalf("got %q, %v", body, err)
	}
	if response.Proto != protocol {
		t.Fatalf("spoke %s instead of %s", response.Proto, protocol)
	}
	return response.StatusCode, reused
}

func portText(s configv1alpha1.Server) string {
	_, port, _ := net.SplitHostPort((&net.TCPAddr{Port: int(*s.WebhookPort)}).String())
	return port
}

// fakeManager only runs.
type fakeManager struct {
	manager.Manager
	start func(context.Context) error
}

func (m fakeManager) Start(ctx context.Context) error { return m.start(ctx) }
func (m fakeManager) GetLogger() logr.Logger          { return logr.Discard() }

func TestTheOrderToStopIsFollowedByADraining(t *testing.T) {
	t.Run("not ready at once, stopped when the period is over", func(t *testing.T) {
		state := &lifecycle{}
		ctx, stop := context.WithCancel(t.Context())
		m := &drainingManager{state: state, Manager: fakeManager{start: func(ctx context.Context) error {
			stop()
			<-ctx.Done()
			return state.checkStaying(nil)
		}}}
		if err := m.Start(ctx); err == nil || err.Error() != "the manager is stopping" {
			t.Errorf("stopped before it was not ready: %v", err)
		}
	})
	t.Run("served on during the period", func(t *testing.T) {
		state := &lifecycle{}
		ctx, stop := context.WithCancel(t.Context())
		failure := errors.New("a server failed")
		m := &drainingManager{state: state, period: forever, Manager: fakeManager{start: func(ctx context.Context) error {
			stop()
			eventually(t, "waiting for the draining", func() error {
				if state.checkStaying(nil) == nil {
					return errors.New("still ready")
				}
				return nil
			})
			if ctx.Err() != nil {
				t.Error("stopped before the draining was over")
			}
			return failure
		}}}
		if err := m.Start(ctx); !errors.Is(err, failure) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a failure needs no draining", func(t *testing.T) {
		state := &lifecycle{}
		failure := errors.New("no Lease")
		m := &drainingManager{state: state, period: forever, Manager: fakeManager{start: func(context.Context) error { return failure }}}
		if err := m.Start(t.Context()); !errors.Is(err, failure) || state.checkStaying(nil) != nil {
			t.Errorf("got %v, staying %v", err, state.checkStaying(nil))
		}
	})
}

func TestReadyOnlyWithFilledCaches(t *testing.T) {
	state := &lifecycle{}
	if state.checkSynced(nil) == nil {
		t.Error("ready before the caches were filled")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := state.Start(ctx); err != nil || state.checkSynced(nil) != nil {
		t.Errorf("got %v, %v", err, state.checkSynced(nil))
	}
	if state.NeedLeaderElection() {
		t.Error("a replica that does not lead would never be ready")
	}
}

func TestTheMetricIsTheExpiryOfTheServedCertificate(t *testing.T) {
	dir := t.TempDir()
	write := func(age time.Duration) time.Time {
		certificate, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: "localhost", MaxAge: age})
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{keyFile: key, certificateFile: certificate} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		parsed, err := cert.ParseCertsPEM(certificate)
		if err != nil {
			t.Fatal(err)
		}
		return parsed[0].NotAfter
	}
	first := write(time.Hour)
	server, _, _ := startServer(t, dir, Options{})
	eventually(t, "waiting to become ready", func() error { return server.StartedChecker()(nil) })
	if got := server.certificateEnd(); !got.Equal(first) {
		t.Errorf("got %s, expected %s", got, first)
	}
	second := write(48 * time.Hour)
	eventually(t, "waiting for the second certificate", func() error {
		if got := server.certificateEnd(); !got.Equal(second) {
			return fmt.Errorf("got %s, expected %s", got, second)
		}
		return nil
	})
}
