// SPDX-License-Identifier: Apache-2.0

package adversaries_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-co-op/gocron/v2"
	wbreconciler "github.com/k8snetworkplumbingwg/whereabouts/pkg/reconciler"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/reconciler"
	"github.com/holdfast-dev/holdfast/hack/dev/standin"
)

// daemonSetPod is whereabouts' pod on a node.
func daemonSetPod(ctx context.Context, node string) *corev1.Pod {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(admin.List(ctx, &pods, client.InNamespace(standin.DefaultWhereaboutsNamespace), client.MatchingLabels{"name": "whereabouts"})).To(Succeed())
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == node {
			return &pods.Items[i]
		}
	}
	Fail("no pod of whereabouts on node " + node)
	return nil
}

// runs are what whereabouts' reconciler did, again and again.
type runs struct {
	mutex sync.Mutex
	freed []net.IP
	errs  []error // of the runs that failed
}

func (r *runs) run(ctx context.Context, identity *rest.Config) {
	freed, err := reconciler.Run(ctx, identity)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.freed = append(r.freed, freed...)
	if err != nil && ctx.Err() == nil {
		r.errs = append(r.errs, err)
	}
}

func (r *runs) errors() []error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.errs)
}

func (r *runs) addresses() []net.IP {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.freed)
}

// reconcilerPause is what a reconciler that runs again and again leaves to the machine.
const reconcilerPause = 250 * time.Millisecond

// haunt runs whereabouts' reconciler on the story's pools and reservations again and again until it is stopped.
func (w *world) haunt(ctx context.Context) (all *runs, stop func()) {
	running, cancel := context.WithCancel(ctx)
	identity := w.scoped(reconcilerIdentity(ctx, w))
	all = &runs{}
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(reconcilerPause)
		defer ticker.Stop()
		for running.Err() == nil {
			all.run(running, identity)
			select {
			case <-ticker.C:
			case <-running.Done():
			}
		}
	})
	return all, func() {
		cancel()
		done.Wait()
	}
}

// reconcile runs whereabouts' reconciler once on the story's pools and reservations.
func (w *world) reconcile(ctx context.Context) error {
	return w.reconcileAs(ctx, reconcilerIdentity(ctx, w))
}

func (w *world) reconcileAs(ctx context.Context, identity *rest.Config) error {
	_, err := reconciler.Run(ctx, w.scoped(identity))
	return err
}

// scoped is an identity to which the cluster has no pools and no reservations but those of the story: the reconciler ends a
// run at the first removal that is refused it, so that of many stories it would haunt only the first.
func (w *world) scoped(identity *rest.Config) *rest.Config {
	identity = rest.CopyConfig(identity)
	identity.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			isList := strings.HasSuffix(request.URL.Path, "/ippools") || strings.HasSuffix(request.URL.Path, "/overlappingrangeipreservations")
			if err != nil || !isList || request.Method != http.MethodGet || response.StatusCode != http.StatusOK {
				return response, err
			}
			return w.filter(response)
		})
	})
	return identity
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// filter leaves of a list what is named after one of the story's addresses.
func (w *world) filter(response *http.Response) (*http.Response, error) {
	defer response.Body.Close()
	list := &unstructured.UnstructuredList{}
	content, err := io.ReadAll(response.Body)
	if err == nil {
		err = list.UnmarshalJSON(content)
	}
	if err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool {
		ip, _, _ := strings.Cut(o.GetName(), "-") // of a pool the length of the range follows
		return !w.owns(ip)
	})
	if content, err = list.MarshalJSON(); err != nil {
		return nil, err
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	response.Header.Del("Content-Length")
	return response, nil
}

func reconcilerIdentity(ctx context.Context, g Gomega) *rest.Config {
	identity, err := reconciler.Identity(ctx, theCluster.Config(), standin.DefaultWhereaboutsNamespace)
	g.Expect(err).NotTo(HaveOccurred())
	return identity
}

// startSchedule runs whereabouts' reconciler as its own command does (cmd/reconciler): by the cron expression in a file,
// which is that of #162, every minute.
func startSchedule(ctx context.Context) *runs {
	GinkgoHelper()
	identity := reconcilerIdentity(ctx, Default)
	path := filepath.Join(GinkgoT().TempDir(), "config")
	Expect(os.WriteFile(path, []byte("* * * * *\n"), 0o600)).To(Succeed())
	scheduler, err := gocron.NewScheduler()
	Expect(err).NotTo(HaveOccurred())
	watcher, err := fsnotify.NewWatcher()
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	all := &runs{}
	configuration, err := wbreconciler.NewConfigWatcher(path, scheduler, watcher, func() { all.run(running, identity) })
	Expect(err).NotTo(HaveOccurred())
	scheduler.Start()
	configuration.SyncConfiguration(func(fsnotify.Event) bool { return false })
	DeferCleanup(func() {
		cancel()
		Expect(scheduler.Shutdown()).To(Succeed())
		Expect(watcher.Close()).To(Succeed())
	})
	return all
}
