// SPDX-License-Identifier: Apache-2.0

package orphans_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/internal/testing/faults"
	"github.com/holdfast-dev/holdfast/internal/testing/judged"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	managerNamespace = "holdfast-system"

	// The delays of the decision table, short enough to be waited for and long enough to be seen.
	releaseDelay       = time.Second
	sandboxCreationMax = 2 * time.Second
	answerWithin       = 2 * time.Second
	nodeGoneDelay      = 2 * time.Second
)

// options change what a manager of this suite is started with.
type options struct {
	configure func(*configv1alpha1.ManagerConfiguration)
	transport func(http.RoundTripper) http.RoundTripper
}

// startManager starts a manager as the installation does, in agent mode, and gives what stops it.
func startManager(ctx context.Context, o options) (stop func()) {
	GinkgoHelper()
	identity, err := plane.ServiceAccountConfig(ctx, managerNamespace, app.Name, nil)
	Expect(err).NotTo(HaveOccurred())
	// Behind the failing calls, so that it sees what reaches the API server.
	if o.transport != nil {
		identity.Wrap(o.transport)
	}
	secondpass.Wrap(identity, secondpass.Leases(managerNamespace))
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := configuration(o)
	mgr, err := secondpass.Start(func() (manager.Manager, error) {
		return app.New(running, rest.CopyConfig(identity), c, app.Options{Log: GinkgoLogr, LastRetry: secondpass.LastRetry(), PoliciesSince: judged.Always})
	})
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		ended <- mgr.Start(running)
	}()
	stop = sync.OnceFunc(func() {
		GinkgoHelper()
		cancel()
		Eventually(ended).Should(Receive())
	})
	DeferCleanup(stop)
	return stop
}

func configuration(o options) *configv1alpha1.ManagerConfiguration {
	GinkgoHelper()
	port, err := process.FreePort()
	Expect(err).NotTo(HaveOccurred())
	c := &configv1alpha1.ManagerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "config.holdfast.dev/v1alpha1", Kind: "ManagerConfiguration"},
		Evidence: configv1alpha1.EvidenceAgent,
		Delays: configv1alpha1.Delays{
			ReleaseDelay:       &metav1.Duration{Duration: releaseDelay},
			GracePeriodSlack:   &metav1.Duration{Duration: 0},
			SandboxCreationMax: &metav1.Duration{Duration: sandboxCreationMax},
			NodeGoneDelay:      &metav1.Duration{Duration: nodeGoneDelay},
		},
		Handshakes: configv1alpha1.Handshakes{AnswerWithin: &metav1.Duration{Duration: answerWithin}},
		Server: configv1alpha1.Server{WebhookHost: "127.0.0.1", WebhookPort: new(int32(port)), CertDir: certificates(),
			MetricsBindAddress: "0", HealthProbeBindAddress: "0"},
		Controller: configv1alpha1.Controller{LeaderElection: new(false)},
	}
	if o.configure != nil {
		o.configure(c)
	}
	return c
}

// selfSigned is made once: a key costs more than a manager's start.
var selfSigned = sync.OnceValues(func() ([2][]byte, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	return [2][]byte{certificate, key}, err
})

// certificates writes a self-signed certificate for the webhook server.
func certificates() string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	pair, err := selfSigned()
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), pair[0], 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "tls.key"), pair[1], 0o600)).To(Succeed())
	return dir
}

// writes sees the writes of a manager, and can kill it after any of them.
type writes struct {
	// crashAt is the write that goes through before every call fails; see note. Empty is never.
	crashAt string
	// crashed is called at that moment.
	crashed func()

	dead  atomic.Bool
	mu    sync.Mutex
	kinds map[string]int
	log   []string
}

func newWrites() *writes { return &writes{kinds: map[string]int{}} }

var errCrashed = errors.New("the manager has crashed")

func (w *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if w.dead.Load() {
			return nil, errCrashed
		}
		response, err := next.RoundTrip(request)
		if err == nil && countsAsWrite(request) && w.note(request) == w.crashAt {
			w.dead.Store(true)
			w.crashed()
		}
		return response, err
	})
}

// note names a write by what is the same in every run: the second patch of an IPPool is "patch ippools, 2".
func (w *writes) note(request *http.Request) string {
	call := faults.CallOf(request)
	kind := call.Verb + " " + call.Resource.Resource
	if call.Subresource != "" {
		kind += "/" + call.Subresource
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kinds[kind]++
	point := fmt.Sprintf("%s, %d", kind, w.kinds[kind])
	w.log = append(w.log, point)
	return point
}

// countsAsWrite: events, leases and reviews change nothing that a restart could trip over.
func countsAsWrite(request *http.Request) bool {
	switch request.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return false
	}
	for _, part := range []string{"/events", "/leases", "reviews"} {
		if strings.Contains(request.URL.Path, part) {
			return false
		}
	}
	return true
}

// made are the writes so far.
func (w *writes) made() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// key names an object.
func key(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}
