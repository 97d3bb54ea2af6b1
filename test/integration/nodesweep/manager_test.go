// SPDX-License-Identifier: Apache-2.0

package nodesweep_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/faults"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

const (
	// often is a sweep interval that a spec can wait for.
	often = 200 * time.Millisecond
	// never is one that a spec does not see the end of: what happens, an event has caused.
	never = time.Hour

	nodeGoneDelay = 5 * time.Minute

	// plentyOfDeletes is a limit that deletions that fail do not use up: the clock that fills it stands still.
	plentyOfDeletes = 10_000
)

// sweeper is a manager with the controllers of node-scoped resources alone.
type sweeper struct {
	clock     *clocktesting.FakePassiveClock
	intercept atomic.Pointer[interceptor]
	// Stop ends it; a second call does nothing.
	Stop func()
}

// startSweeper starts one under the manager's identity, with what answers in the API server's place, if anything.
func startSweeper(ctx context.Context, change func(*noderesource.Options), answers ...interceptor) *sweeper {
	GinkgoHelper()
	s := &sweeper{clock: clocktesting.NewFakePassiveClock(time.Now())}
	for _, answer := range answers {
		s.when(answer)
	}
	identity, err := plane.ServiceAccountConfig(ctx, managerNamespace, managerAccount, nil)
	Expect(err).NotTo(HaveOccurred())
	identity.QPS = -1
	secondpass.Wrap(identity, secondpass.LiveReads, isDeletion)
	identity.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if intercept := s.intercept.Load(); intercept != nil {
				if response := (*intercept)(request); response != nil {
					return response, nil
				}
			}
			return next.RoundTrip(request)
		})
	})
	options := noderesource.Options{
		Target:        nodepolicy.Target{URL: "https://127.0.0.1:1"}, // where nobody listens
		SweepInterval: never, DeletesPerSecond: 10, NodeGoneDelay: nodeGoneDelay, Clock: s.clock,
		LastRetry: secondpass.LastRetry(),
	}
	if secondpass.On() {
		options.DeletesPerSecond = plentyOfDeletes
	}
	if change != nil {
		change(&options)
	}
	o := manager.Options{
		Scheme:                 scheme,
		Logger:                 GinkgoLogr,
		Cache:                  cache.Options{ByObject: noderesource.CacheByObject(), DefaultTransform: cache.TransformStripManagedFields()},
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Controller:             ctrlconfig.Controller{SkipNameValidation: new(true)},
	}
	mgr, err := secondpass.Start(func() (manager.Manager, error) { return manager.New(identity, o) })
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	Expect(noderesource.Setup(running, mgr, options)).To(Succeed())
	ended := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		ended <- mgr.Start(running)
	}()
	s.Stop = sync.OnceFunc(func() {
		GinkgoHelper()
		cancel()
		Eventually(ended).Should(Receive(Succeed()))
	})
	DeferCleanup(s.Stop)
	return s
}

// isDeletion: one whose answer was lost is somebody else's, as far as the sweeper can tell, and specs wait until theirs is told of.
func isDeletion(c faults.Call) bool { return c.Verb == "delete" }

func sweepsOften(o *noderesource.Options) { o.SweepInterval = often }

// pass lets a time pass for the manager.
func (s *sweeper) pass(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }

// interceptor may answer a request of the manager in the API server's place; nil lets the request go on.
type interceptor func(*http.Request) *http.Response

// when sets what answers in the API server's place; nil ends that.
func (s *sweeper) when(answer interceptor) {
	if answer == nil {
		s.intercept.Store(nil)
		return
	}
	s.intercept.Store(&answer)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// isList says whether a request lists a resource, and not one object of it.
func isList(request *http.Request, resource schema.GroupVersionResource) bool {
	return request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/"+resource.Resource)
}

// answer is an answer of the API server.
func answer(request *http.Request, code int, reason metav1.StatusReason, message string) *http.Response {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
	utilruntime.Must(err)
	return &http.Response{
		StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
	}
}

// awaitVerbs waits until the API server says that the manager may, or may not, do these.
func awaitVerbs(ctx context.Context, resource schema.GroupVersionResource, may bool, verbs ...string) {
	GinkgoHelper()
	for _, verb := range verbs {
		Eventually(func(g Gomega) {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + managerNamespace + ":" + managerAccount,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Group: resource.Group, Resource: resource.Resource, Verb: verb},
			}}
			g.Expect(admin.Create(ctx, review)).To(Succeed())
			g.Expect(review.Status.Allowed).To(Equal(may))
		}).WithContext(ctx).Should(Succeed())
	}
}
