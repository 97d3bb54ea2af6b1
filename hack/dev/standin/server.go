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
	"github.com/holdfast-dev/holdfast/hack/dev/standin/runtime"
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
		mux.HandleFunc("POST /v1/nodes/{name}/"+action, f.nodeAction(action != "power-off",
			func(_ *http.Request, m *machine) error { run(m); return nil }))
	}
	mux.HandleFunc("POST /v1/nodes/{name}/reboot", f.nodeAction(false,
		func(r *http.Request, m *machine) error { return f.reboot(r.Context(), m.node.Name) }))
	mux.HandleFunc("POST /v1/nodes/{name}/replace", f.nodeAction(false,
		func(r *http.Request, m *machine) error {
			return f.replace(r.Context(), m.node.Name, r.URL.Query().Has("delete-node"))
		}))
	return mux
}

// nodeAction does something to the machine of the request, which has to be on
// where needsPower is set.
func (f *Fleet) nodeAction(needsPower bool, run func(*http.Request, *machine) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		m := f.machine(name)
		switch {
		case m == nil:
			http.Error(w, fmt.Sprintf("no stand-in node %q, there are %q", name, f.options.Nodes), http.StatusNotFound)
			return
		case needsPower && m.isPoweredOff():
			http.Error(w, fmt.Sprintf("node %s is powered off", name), http.StatusConflict)
			return
		}
		if err := run(r, m); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (f *Fleet) killSandbox(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	all := f.runtimes()
	i := slices.IndexFunc(all, func(r *runtime.Runtime) bool { return r.Has(id) })
	if i < 0 {
		http.Error(w, fmt.Sprintf("no stand-in node has a sandbox %q", id), http.StatusNotFound)
		return
	}
	if err := all[i].Kill(id); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (f *Fleet) listNodes(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	machines := f.all()
	nodes := make([]api.Node, 0, len(machines))
	for _, m := range machines {
		ready, err := f.isReady(ctx, m.node.Name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		nodes = append(nodes, api.Node{
			Name: m.node.Name, Ready: ready, PoweredOff: m.isPoweredOff(),
			Frozen: m.gate.IsClosed() && !m.isPoweredOff(), APICut: m.networks.IsCut(), CNS: m.cns != nil,
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
