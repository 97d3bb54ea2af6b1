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
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"

	certificatePollInterval = 250 * time.Millisecond
)

// webhookServer is controller-runtime's, which reads a changed certificate again by itself; it also waits for the first
// certificate, and takes part in the draining.
type webhookServer struct {
	webhook.Server
	certDir string
	wait    time.Duration
	log     logr.Logger
	state   *lifecycle
}

func newWebhookServer(s configv1alpha1.Server, o Options, state *lifecycle) *webhookServer {
	return &webhookServer{
		Server: webhook.NewServer(webhook.Options{
			Host: s.WebhookHost, Port: int(*s.WebhookPort), CertDir: s.CertDir, CertName: certificateFile, KeyName: keyFile,
		}),
		certDir: s.CertDir,
		wait:    o.CertificateWait,
		log:     o.Log.WithName("webhook-server"),
		state:   state,
	}
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
	return s.Server.Start(ctx)
}

// StartedChecker says what is missing until the server listens with a certificate.
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

// awaitCertificate waits for files that go together. cert-manager writes both into the Secret before the kubelet
// starts the pod; outside of a cluster whoever makes them may be slower than we are.
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
