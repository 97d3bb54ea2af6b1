// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

// requestTimeout bounds what a request makes us wait for.
const requestTimeout = 10 * time.Second

// handler serves the control socket.
func (f *Fleet) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/nodes", f.listNodes)
	mux.HandleFunc("GET /v1/sandboxes", func(w http.ResponseWriter, _ *http.Request) { answer(w, f.sandboxes()) })
	mux.HandleFunc("GET /v1/history", func(w http.ResponseWriter, _ *http.Request) { answer(w, f.history.List()) })
	mux.HandleFunc("POST /v1/sandboxes/{id}/kill", f.killSandbox)
	for action, run := range map[string]func(*machine){
		"freeze":    (*machine).freeze,
		"thaw":      (*machine).thaw,
		"power-off": (*machine).powerOff,
		"cut-cni":   func(m *machine) { m.cutCNI(true) },
		"mend-cni":  func(m *machine) { m.cutCNI(false) },
	} {
		mux.HandleFunc("POST /v1/nodes/{name}/"+action, f.nodeAction(action, run))
	}
	return mux
}

func (f *Fleet) nodeAction(action string, run func(*machine)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		m := f.machine(name)
		switch {
		case m == nil:
			http.Error(w, fmt.Sprintf("no stand-in node %q, there are %q", name, f.options.Nodes), http.StatusNotFound)
		case action != "power-off" && m.isPoweredOff():
			http.Error(w, fmt.Sprintf("node %s is powered off", name), http.StatusConflict)
		default:
			run(m)
			w.WriteHeader(http.StatusNoContent)
		}
	}
}

func (f *Fleet) killSandbox(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	i := slices.IndexFunc(f.machines, func(m *machine) bool { return m.runtime.Has(id) })
	if i < 0 {
		http.Error(w, fmt.Sprintf("no stand-in node has a sandbox %q", id), http.StatusNotFound)
		return
	}
	if err := f.machines[i].runtime.Kill(id); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (f *Fleet) listNodes(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	nodes := make([]api.Node, 0, len(f.machines))
	for _, m := range f.machines {
		ready, err := f.isReady(ctx, m.node.Name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		nodes = append(nodes, api.Node{
			Name: m.node.Name, Ready: ready, PoweredOff: m.isPoweredOff(),
			Frozen: m.gate.IsClosed() && !m.isPoweredOff(), APICut: m.networks.IsCut(),
		})
	}
	answer(w, nodes)
}

func (f *Fleet) isReady(ctx context.Context, name string) (bool, error) {
	node, err := f.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading node %s: %w", name, err)
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}), nil
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	// The client is gone when this fails.
	_ = json.NewEncoder(w).Encode(value)
}
