// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// requestTimeout bounds what a request makes us wait for.
const requestTimeout = 10 * time.Second

// handler serves the control socket.
func (f *Fleet) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/nodes", f.listNodes)
	mux.HandleFunc("GET /v1/sandboxes", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, f.sandboxes()) })
	mux.HandleFunc("GET /v1/history", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, f.history.List()) })
	for action, run := range map[string]func(*machine){
		api.EventFreeze:     func(m *machine) { m.gate.Close() },
		api.EventThaw:       func(m *machine) { m.gate.Open() },
		api.EventCutOff:     func(m *machine) { m.uplink.Set(true) },
		api.EventReconnect:  func(m *machine) { m.uplink.Set(false) },
		api.EventCutCNI:     func(m *machine) { m.networks.Cut(true) },
		api.EventMendCNI:    func(m *machine) { m.networks.Cut(false) },
		api.EventStopAgent:  func(m *machine) { m.agentSwitch.Close(); m.killAgent() },
		api.EventStartAgent: func(m *machine) { m.agentSwitch.Open() },
	} {
		mux.HandleFunc("POST /v1/nodes/{name}/"+action, f.nodeAction(isOn, func(_ *http.Request, m *machine) error {
			m.note(action)
			run(m)
			return nil
		}))
	}
	mux.HandleFunc("POST /v1/nodes/{name}/"+api.EventPowerOff, f.nodeAction(inAnyState,
		func(_ *http.Request, m *machine) error { m.powerOff(); return nil }))
	mux.HandleFunc("POST /v1/nodes/{name}/"+api.EventStart, f.nodeAction(isOff,
		func(r *http.Request, m *machine) error { return f.start(r.Context(), m.node.Name) }))
	mux.HandleFunc("POST /v1/nodes/{name}/"+api.EventReplace, f.nodeAction(inAnyState,
		func(r *http.Request, m *machine) error {
			query := r.URL.Query()
			return f.replace(r.Context(), m.node.Name, replacement{query.Has("delete-node"), query.Has("old-lives")})
		}))
	return mux
}

// The states of a machine that an action needs. The result is why it cannot be; empty
// if it can.
func inAnyState(*machine) string { return "" }

func isOn(m *machine) string {
	if m.isPoweredOff() {
		return "is powered off"
	}
	return ""
}

func isOff(m *machine) string {
	if m.isPoweredOff() {
		return ""
	}
	return "is on"
}

// nodeAction does something to the machine of the request, unless that is in the
// wrong state.
func (f *Fleet) nodeAction(wrong func(*machine) string, run func(*http.Request, *machine) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		m := f.machine(name)
		if m == nil {
			http.Error(w, fmt.Sprintf("no simulated node %q, there are %q", name, f.options.Nodes), http.StatusNotFound)
			return
		}
		if why := wrong(m); why != "" {
			http.Error(w, fmt.Sprintf("node %s %s", name, why), http.StatusConflict)
			return
		}
		if err := run(r, m); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (f *Fleet) listNodes(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	ready, err := f.readyNodes(ctx)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	machines := f.all()
	nodes := make([]api.Node, 0, len(machines))
	for _, m := range machines {
		nodes = append(nodes, api.Node{
			Name: m.node.Name, Ready: ready[m.node.Name], PoweredOff: m.isPoweredOff(),
			Frozen: m.gate.IsClosed() && !m.isPoweredOff(), APICut: m.networks.IsCut(), CutOff: m.uplink.IsCut(), CNS: m.cns != nil,
			CRI: m.socket, AgentPID: m.agentPID(), AgentStopped: m.agentSwitch.IsClosed(),
		})
	}
	writeJSON(w, nodes)
}

// readyNodes are the names of the Nodes whose Ready condition is True, read live.
func (f *Fleet) readyNodes(ctx context.Context) (map[string]bool, error) {
	list, err := f.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the nodes: %w", err)
	}
	ready := map[string]bool{}
	for i := range list.Items {
		ready[list.Items[i].Name] = slices.ContainsFunc(list.Items[i].Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	}
	return ready, nil
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	// The client is gone when this fails.
	_ = json.NewEncoder(w).Encode(value)
}
