// SPDX-License-Identifier: Apache-2.0

// Package conformance_test holds the API server in memory (internal/testing/apiserver) to what a real one does: each story is played
// on both, and the responses are compared.
package conformance_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

const widgetsFile = "testdata/widgets.yaml"

func TestTheServerInMemoryRespondsAsARealOne(t *testing.T) {
	hooks := startWebhooks(t)
	genuine, memory := startReal(t), startMemory(t, hooks)
	for i, s := range stories(hooks) {
		t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
			namespace := fmt.Sprintf("story-%d", i)
			for _, w := range []*player{genuine, memory} {
				w.namespace, w.authority = namespace, hooks.ca
				w.playAll(t, []step{post("/api/v1/namespaces", `{"metadata":{"name":"NS","labels":{"story":"NS"}}}`)})
			}
			want, got := genuine.playAll(t, s.steps), memory.playAll(t, s.steps)
			for j := range want {
				if want[j] != got[j] {
					t.Errorf("step %d\n  of a real server:   %s\n  of that in memory:  %s", j+1, want[j], got[j])
				}
			}
			for _, w := range []*player{genuine, memory} {
				w.playAll(t, s.cleanup)
			}
		})
	}
}

func startReal(t *testing.T) *player {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{
		CRDs: []string{filepath.FromSlash(widgetsFile)},
		// It would write a ConfigMap into a story's namespace while the story is played.
		ControllerManagerArgs: map[string]string{"controllers": "*,-root-ca-certificate-publisher-controller"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := rest.CopyConfig(plane.Config())
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &player{http: client, host: strings.TrimSuffix(config.Host, "/")}
}

func startMemory(t *testing.T, hooks *webhooks) *player {
	t.Helper()
	widgets, err := apiserver.CustomFromFile(widgetsFile)
	if err != nil {
		t.Fatal(err)
	}
	server := apiserver.New(apiserver.Options{Webhook: hooks.handler}, append(apiserver.Natives(), widgets)...)
	return &player{http: &http.Client{Transport: server.Client(apiserver.Identity{Client: "story"})}, host: "http://memory"}
}
