// SPDX-License-Identifier: Apache-2.0

package protection

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/protection"
	"github.com/holdfast-dev/holdfast/test/fixture"
	"github.com/holdfast-dev/holdfast/webhooks"
)

const (
	finalizer    = "holdfast.dev/ip-allocation"
	guardedLabel = "holdfast.dev/guarded"
	foreignPath  = "/foreign"
)

// replica is the manager under test, in this process.
var replica = &managerReplica{}

type managerReplica struct {
	cancel context.CancelFunc
	done   chan error
	// calls counts the calls of the webhook, with any result.
	calls atomic.Int64
	// instead, if set, responds in place of the webhook.
	instead atomic.Pointer[http.Handler]
}

// start runs a replica with the port and certificates of hooks.
func (r *managerReplica) start(rules protection.Rules) {
	GinkgoHelper()
	mgr, err := manager.New(plane.Config(), manager.Options{
		Scheme:  fixture.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: &countingServer{replica: r, Server: webhook.NewServer(webhook.Options{
			Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir,
		})},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(webhooks.SetupPodWebhook(mgr, webhooks.PodOptions{
		Rules:   rules,
		Manages: func(ipam podnetwork.IPAM) bool { return ipam.Type == "whereabouts" },
	})).To(Succeed())
	mgr.GetWebhookServer().Register(foreignPath, &admission.Webhook{Handler: admission.HandlerFunc(foreign)})
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	r.done = make(chan error, 1)
	go func(done chan<- error) { done <- mgr.Start(ctx) }(r.done)
}

func (r *managerReplica) stop() {
	GinkgoHelper()
	r.cancel()
	Eventually(r.done).Should(Receive(Succeed()))
}

// countingServer counts the calls of the webhook under test, and lets a spec respond in its place.
type countingServer struct {
	webhook.Server
	replica *managerReplica
}

func (s *countingServer) Register(path string, hook http.Handler) {
	if path == webhooks.PodPath {
		inner := hook
		hook = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.replica.calls.Add(1)
			if instead := s.replica.instead.Load(); instead != nil {
				(*instead).ServeHTTP(w, r)
				return
			}
			inner.ServeHTTP(w, r)
		})
	}
	s.Server.Register(path, hook)
}

// respondInstead makes the webhook respond otherwise for the rest of the spec.
func respondInstead(f func(context.Context, admission.Request) admission.Response) {
	handler := webhooks.Serve("instead", admission.HandlerFunc(f))
	replica.instead.Store(&handler)
	DeferCleanup(func() { replica.instead.Store(nil) })
}

// foreign is a webhook of another project: it removes all finalizers and labels of a pod.
func foreign(_ context.Context, _ admission.Request) admission.Response {
	return admission.Patched("",
		jsonpatch.NewOperation("add", "/metadata/finalizers", []string{"foreign.example.com/x"}),
		jsonpatch.NewOperation("add", "/metadata/labels", map[string]string{"foreign": "yes"}))
}

// unavailable is a webhook that responds HTTP 503.
func unavailable(context.Context, admission.Request) admission.Response {
	return webhooks.CouldNotTell(errors.New("as if its reads had failed"))
}

// newPod is a pod without an owner, changed.
func newPod(changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: apps, GenerateName: "web-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/none:1"}}},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func annotate(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	}
}

func naming(value string) func(*corev1.Pod) { return annotate("k8s.v1.cni.cncf.io/networks", value) }

func defaultNetwork(value string) func(*corev1.Pod) {
	return annotate("v1.multus-cni.io/default-network", value)
}

func in(namespace string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Namespace = namespace }
}

func onHostNetwork(p *corev1.Pod) { p.Spec.HostNetwork = true }

func mirrorPod(p *corev1.Pod) {
	annotate(corev1.MirrorPodAnnotationKey, "hash")(p)
	p.Spec.NodeName = "node-a"
}

func withFinalizers(f ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Finalizers = f }
}

func labeled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{key: value} }
}

// expectProtection compares what was created with what was asked for: the finalizer added or not, and nothing else of ours or of
// others changed in the metadata that a creator writes.
func expectProtection(asked, created *corev1.Pod, protected bool) {
	GinkgoHelper()
	finalizers, labels := slices.Clone(asked.Finalizers), maps.Clone(asked.Labels)
	if protected {
		if !slices.Contains(finalizers, finalizer) {
			finalizers = append(finalizers, finalizer)
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[guardedLabel] = "true"
	}
	Expect(created.Finalizers).To(Equal(finalizers), "finalizers")
	Expect(created.Labels).To(Equal(labels), "labels")
	Expect(created.Annotations).To(Equal(asked.Annotations), "annotations")
}

// create creates a copy and gives it back with the number of calls that it cost.
func create(ctx context.Context, asked *corev1.Pod, options ...client.CreateOption) (*corev1.Pod, int64) {
	GinkgoHelper()
	before := replica.calls.Load()
	created := asked.DeepCopy()
	Expect(admin.Create(ctx, created, options...)).To(Succeed())
	return created, replica.calls.Load() - before
}

// isProtected creates a pod that names a guarded network, as a dry run.
func isProtected(ctx context.Context, changes ...func(*corev1.Pod)) func() (bool, error) {
	return func() (bool, error) {
		pod := newPod(append([]func(*corev1.Pod){naming("blue")}, changes...)...)
		err := admin.Create(ctx, pod, client.DryRunAll)
		return slices.Contains(pod.Finalizers, finalizer) && pod.Labels[guardedLabel] == "true", err
	}
}

func awaitProtection(ctx context.Context) {
	GinkgoHelper()
	Eventually(isProtected(ctx)).Should(BeTrue())
	warned.Take()
}
