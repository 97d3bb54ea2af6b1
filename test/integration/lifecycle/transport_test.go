// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/testing/faults"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

// through makes a client, and a cache of ConfigMaps, of a namespace through a wrapper.
func through(ctx context.Context, namespace string, wrap func(http.RoundTripper) http.RoundTripper) (client.Client, cache.Cache) {
	GinkgoHelper()
	config := plane.Config()
	config.Wrap(wrap)
	direct, err := client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	cached, err := cache.New(config, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- cached.Start(running) }()
	DeferCleanup(func() {
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	})
	return direct, cached
}

// valuesOf are the ConfigMaps of a namespace, by name, as a reader has them.
func valuesOf(ctx context.Context, reader client.Reader, namespace string) map[string]string {
	GinkgoHelper()
	var list corev1.ConfigMapList
	Expect(reader.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	values := map[string]string{}
	for i := range list.Items {
		if value, ours := list.Items[i].Data["value"]; ours {
			values[list.Items[i].Name] = value
		}
	}
	return values
}

func configMap(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"value": value}}
}

var _ = Describe("The faults of internal/testing/faults", secondpass.Exempt("no manager takes part"), func() {
	var namespace string

	BeforeEach(func(ctx context.Context) { namespace = newWorld(ctx).namespace })

	DescribeTable("fail a write before or after the API server has carried it out", func(ctx context.Context, kind faults.Kind, written bool) {
		var armed atomic.Bool
		failing := &faults.Faults{RetryAfter: time.Millisecond, Choose: func(c faults.Call) faults.Kind {
			if c.IsWrite() && armed.CompareAndSwap(true, false) {
				return kind
			}
			return faults.None
		}}
		direct, _ := through(ctx, namespace, failing.Wrap)
		Expect(admin.Create(ctx, configMap(namespace, "a", "old"))).To(Succeed())
		armed.Store(true)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"value":"new"}}`))
		err := direct.Patch(ctx, configMap(namespace, "a", ""), patch)
		if kind == faults.TooManyRequests {
			Expect(err).NotTo(HaveOccurred(), "client-go tries again")
		} else {
			Expect(err).To(HaveOccurred())
		}
		Expect(valuesOf(ctx, admin, namespace)).To(HaveKeyWithValue("a", map[bool]string{true: "new", false: "old"}[written]))
		Expect(failing.Injected()).To(ConsistOf(HaveField("Kind", kind)))
	},
		Entry("409", faults.Conflict, false),
		Entry("422", faults.Invalid, false),
		Entry("429", faults.TooManyRequests, true),
		Entry("500", faults.InternalError, false),
		Entry("a reset before", faults.ResetBefore, false),
		Entry("a reset after", faults.ResetAfter, true),
		Entry("a time-out after", faults.TimeoutAfter, true),
	)

	It("disturb a cache's watches, and let it end with the truth", func(ctx context.Context) {
		disturbed := faults.NewWatchFaults(faults.WatchOptions{Seed: secondpass.Seed(), MaxDelay: 100 * time.Millisecond, Merge: 0.5, Drop: 0.2, Replay: 0.4, Cut: 0.2})
		_, cached := through(ctx, namespace, disturbed.Wrap)
		Expect(cached.WaitForCacheSync(ctx)).To(BeTrue())
		rounds := 0
		for done := func() bool {
			counts := disturbed.Counts()
			return counts["merged"] > 0 && counts["dropped"] > 0 && counts["replayed"] > 0 && counts["cut"] > 0
		}; !done(); rounds++ {
			name := fmt.Sprintf("a-%d", rounds%5)
			Expect(client.IgnoreAlreadyExists(admin.Create(ctx, configMap(namespace, name, "0")))).To(Succeed())
			for range 3 {
				Expect(admin.Update(ctx, configMap(namespace, name, fmt.Sprint(rounds)))).To(Succeed())
			}
			if rounds%3 == 0 {
				Expect(admin.Delete(ctx, configMap(namespace, name, ""))).To(Succeed())
			}
			valuesOf(ctx, cached, namespace) // starts the watch
		}
		want := valuesOf(ctx, admin, namespace)
		Eventually(func() map[string]string { return valuesOf(ctx, cached, namespace) }).Should(Equal(want))
		Consistently(func() map[string]string { return valuesOf(ctx, cached, namespace) }).Should(Equal(want))
	})

	It("freeze what caches see at one version, for a client that starts anew too, and nothing that is read live", func(ctx context.Context) {
		frozen := &faults.Frozen{}
		Expect(admin.Create(ctx, configMap(namespace, "a", "old"))).To(Succeed())
		_, early := through(ctx, namespace, frozen.Wrap)
		Expect(valuesOf(ctx, early, namespace)).To(Equal(map[string]string{"a": "old"}))
		frozen.Freeze(versionNow(ctx))
		Expect(admin.Update(ctx, configMap(namespace, "a", "new"))).To(Succeed())
		Expect(admin.Create(ctx, configMap(namespace, "b", "new"))).To(Succeed())
		present := map[string]string{"a": "new", "b": "new"}

		direct, late := through(ctx, namespace, frozen.Wrap)
		Consistently(func(g Gomega) {
			for _, cached := range []cache.Cache{early, late} {
				g.Expect(valuesOf(ctx, cached, namespace)).To(Equal(map[string]string{"a": "old"}))
			}
			g.Expect(valuesOf(ctx, direct, namespace)).To(Equal(present))
		}).Should(Succeed())
		frozen.Thaw()
		for _, cached := range []cache.Cache{early, late} {
			Eventually(func() map[string]string { return valuesOf(ctx, cached, namespace) }).Should(Equal(present))
		}
	})
})
