// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
)

const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"

	certificatePollInterval = 250 * time.Millisecond
)

// webhookServer is controller-runtime's; it also waits for the first certificate, reads a changed one again, and takes part in the
// draining.
type webhookServer struct {
	webhook.Server
	certDir string
	wait    time.Duration
	log     logr.Logger
	state   *lifecycle
	// certificates reads the certificate again when it changes; nil until the server starts.
	certificates *certwatcher.CertWatcher
}

func newWebhookServer(s configv1alpha1.Server, o Options, state *lifecycle) *webhookServer {
	server := &webhookServer{
		certDir: s.CertDir,
		wait:    o.CertificateWait,
		log:     o.Log.WithName("webhook-server"),
		state:   state,
	}
	server.Server = webhook.NewServer(webhook.Options{
		Host: s.WebhookHost, Port: int(*s.WebhookPort),
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.GetCertificate = server.certificates.GetCertificate
			if s.ClientCAFile != "" {
				askClients(c, s.ClientCAFile)
			}
		}},
	})
	return server
}

// Register registers a handler whose connections end when the manager drains.
func (s *webhookServer) Register(path string, handler http.Handler) {
	s.Server.Register(path, s.state.endConnections(handler))
}

// Start waits for the certificate and serves.
func (s *webhookServer) Start(ctx context.Context) error {
	if err := s.awaitCertificate(ctx); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // to be stopped while waiting is no failure
		}
		return err
	}
	if err := s.watchCertificate(ctx); err != nil {
		return err
	}
	return s.Server.Start(ctx)
}

// watchCertificate does what controller-runtime's server does by itself, so that a metric can show what it presents.
func (s *webhookServer) watchCertificate(ctx context.Context) (err error) {
	s.certificates, err = certwatcher.New(filepath.Join(s.certDir, certificateFile), filepath.Join(s.certDir, keyFile))
	if err != nil {
		return fmt.Errorf("reading the serving certificate: %w", err)
	}
	metrics.CertificateEnd.From(s.certificateEnd)
	go func() {
		if err := s.certificates.Start(ctx); err != nil {
			s.log.Error(err, "The serving certificate is not watched: one that is renewed is presented after a restart only", "certDir", s.certDir)
		}
	}()
	return nil
}

// certificateEnd is the end of the certificate that a caller gets now; the zero time where that is unknown.
func (s *webhookServer) certificateEnd() time.Time {
	certificate, err := s.certificates.GetCertificate(nil)
	if err != nil || certificate == nil || certificate.Leaf == nil {
		return time.Time{}
	}
	return certificate.Leaf.NotAfter
}

// StartedChecker returns what is missing until the server listens with a certificate.
func (s *webhookServer) StartedChecker() healthz.Checker {
	listens := s.Server.StartedChecker()
	return func(r *http.Request) error {
		err := listens(r)
		if err == nil {
			return nil
		}
		return errors.Join(err, s.checkCertificate())
	}
}

// awaitCertificate waits for files that match. cert-manager writes both into the Secret before the kubelet
// starts the pod; outside of a cluster the files may be written later than we start.
func (s *webhookServer) awaitCertificate(ctx context.Context) error {
	missing := s.checkCertificate()
	if missing == nil {
		return nil
	}
	s.log.Info("Waiting for the serving certificate", "certDir", s.certDir, "timeout", s.wait.String(), "reason", missing.Error())
	err := wait.PollUntilContextTimeout(ctx, certificatePollInterval, s.wait, true, func(context.Context) (bool, error) {
		missing = s.checkCertificate()
		return missing == nil, nil
	})
	if err != nil {
		return fmt.Errorf("no serving certificate within %s: %w; look whether the Certificate holdfast-webhook is Ready and its Secret is mounted, "+
			"or set server.certDir", s.wait, errors.Join(missing, ctx.Err()))
	}
	return nil
}

func (s *webhookServer) checkCertificate() error {
	_, err := tls.LoadX509KeyPair(filepath.Join(s.certDir, certificateFile), filepath.Join(s.certDir, keyFile))
	if err != nil {
		return fmt.Errorf("no usable serving certificate %s and %s in %s: %w", certificateFile, keyFile, s.certDir, err)
	}
	return nil
}
