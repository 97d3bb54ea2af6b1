// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/uninstall"
)

const (
	// passInterval is short where nothing happens in between.
	passInterval = 100 * time.Millisecond
	// shortStop is for pods that never stop.
	shortStop = 2 * time.Second
)

// output is what an uninstallation prints. At the first line with a text it calls a function, and continues when that returns.
type output struct {
	mu    sync.Mutex
	text  strings.Builder
	hooks map[string]func()
}

func (s *output) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.text.Write(p)
	var due []func()
	for line, hook := range s.hooks {
		if strings.Contains(string(p), line) {
			due = append(due, hook)
			delete(s.hooks, line)
		}
	}
	s.mu.Unlock()
	for _, hook := range due {
		hook()
	}
	return GinkgoWriter.Write(p)
}

func (s *output) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// at calls a function when a line with the text is printed.
func (s *output) at(line string, hook func()) {
	if s.hooks == nil {
		s.hooks = map[string]func(){}
	}
	s.hooks[line] = func() {
		defer GinkgoRecover()
		hook()
	}
}

// options are those of the command with its defaults, but for the times.
func options(out *output) uninstall.Options {
	return uninstall.Options{
		Client:       admin,
		Entries:      func(ctx context.Context) (ipam.Snapshot, error) { return whereabouts.ReadAll(ctx, admin) },
		PassInterval: passInterval,
		StopTimeout:  soon,
		Out:          out,
		Progress:     GinkgoWriter,
	}
}

// uninstalled runs an uninstallation to its end and looks through the cluster.
func uninstalled(ctx context.Context, o uninstall.Options) {
	GinkgoHelper()
	Expect(uninstall.Run(ctx, o)).To(Succeed())
	Expect(leftovers(ctx)).To(BeEmpty())
}

// cleanUp removes what a spec installed, in any state, and its namespace.
func cleanUp(ctx context.Context, namespace string) {
	GinkgoHelper()
	Expect(uninstall.Run(ctx, uninstall.Options{Client: admin, PassInterval: passInterval, StopTimeout: shortStop, Out: GinkgoWriter})).To(Succeed())
	dropNamespace(ctx, namespace)
}

// dropNamespace plays the kubelet of the stopped node for what is left in it.
func dropNamespace(ctx context.Context, name string) {
	GinkgoHelper()
	pods := podsOf(ctx, name)
	for i := range pods {
		pods[i].Finalizers = nil
		Expect(client.IgnoreNotFound(admin.Patch(ctx, &pods[i], client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"holdfast.dev/unhold":"GivenUp: the spec is over"},"finalizers":null}}`))))).To(Succeed())
		Expect(client.IgnoreNotFound(admin.Delete(ctx, &pods[i], client.GracePeriodSeconds(0)))).To(Succeed())
	}
	deleteNamespace(ctx, name)
}
