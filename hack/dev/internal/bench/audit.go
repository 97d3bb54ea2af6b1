// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	managerUser = "system:serviceaccount:holdfast-system:holdfast-manager"
	agentUser   = "system:serviceaccount:holdfast-agent:holdfast-agent"

	auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    resources: [{group: coordination.k8s.io}]
  - level: Metadata
    users: ["` + managerUser + `", "` + agentUser + `"]
  - level: None
`
)

// apiServerArguments are those that an experiment needs.
func (w *world) apiServerArguments(n needs) (map[string]string, error) {
	if !n.auditLog {
		return nil, nil
	}
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return nil, err
	}
	policy := filepath.Join(w.dir, "audit.yaml")
	arguments := map[string]string{"audit-policy-file": policy, "audit-log-path": w.auditLog(), "audit-log-maxsize": "10000"} // megabytes; a new file would not be counted
	return arguments, errors.Join(
		os.WriteFile(policy, []byte(auditPolicy), 0o600), os.WriteFile(w.auditLog(), nil, 0o600))
}

func (w *world) auditLog() string { return filepath.Join(w.dir, "audit.log") }

// calls are the requests of an account in a time, by "verb resource", and its discovery, which no pod causes.
type calls map[string]float64

const discovery = "discovery"

// countCalls counts what the manager requested while do ran, but for watches and Leases.
func (w *world) countCalls(ctx context.Context, do func(context.Context) error) (calls, error) {
	counted, err := w.countAccounts(ctx, do)
	return counted[managerUser], err
}

// countAccounts counts for the manager and for the agents.
func (w *world) countAccounts(ctx context.Context, do func(context.Context) error) (map[string]calls, error) {
	log, err := os.Open(w.auditLog())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if _, err := log.Seek(0, io.SeekEnd); err != nil {
		return nil, err
	}
	if err := do(ctx); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(log)
	if err != nil {
		return nil, err
	}
	counted, _, err := parseAudit(content)
	return counted, err
}

// parseAudit returns the calls of each account, and how many of its watches began and have not ended.
func parseAudit(content []byte) (counted map[string]calls, watches map[string]float64, err error) {
	counted, watches = map[string]calls{managerUser: {}, agentUser: {}}, map[string]float64{}
	for line := range bytes.Lines(content) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written, and belongs to what comes after
		}
		var event struct {
			Verb      string `json:"verb"`
			Stage     string `json:"stage"`
			User      struct{ Username string }
			ObjectRef struct {
				Resource    string `json:"resource"`
				Subresource string `json:"subresource"`
			} `json:"objectRef"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, nil, fmt.Errorf("audit log: %w", err)
		}
		switch {
		case event.Verb == "watch" && event.Stage == "ResponseStarted":
			watches[event.User.Username]++
		case event.Verb == "watch":
			watches[event.User.Username]--
		case counted[event.User.Username] != nil:
			call := event.Verb + " " + event.ObjectRef.Resource
			switch {
			case event.ObjectRef.Resource == "":
				call = discovery
			case event.ObjectRef.Subresource != "":
				call += "/" + event.ObjectRef.Subresource
			}
			counted[event.User.Username][call]++
		}
	}
	return counted, watches, nil
}

var writeVerbs = []string{"create", "update", "patch", "delete", "deletecollection"}

func (c calls) writes() float64 {
	return c.sum(func(verb string) bool { return slices.Contains(writeVerbs, verb) })
}
func (c calls) lists() float64 { return c.sum(func(verb string) bool { return verb == "list" }) }
func (c calls) reads() float64 {
	return c.sum(func(verb string) bool { return verb == "get" || verb == "list" })
}

func (c calls) sum(of func(verb string) bool) float64 {
	sum := 0.0
	for call, n := range c {
		if verb, _, _ := strings.Cut(call, " "); of(verb) {
			sum += n
		}
	}
	return sum
}

// per are the values of a turn: the sums, and each call, for one operation.
func (c calls) per(operations int) map[string]float64 {
	values := map[string]float64{writes: c.writes(), reads: c.reads(), lists: c.lists()}
	for call, n := range c {
		values[call] = n
	}
	for name := range values {
		values[name] /= float64(operations)
	}
	return values
}

// The names of values that rows use.
const (
	writes = "writes"
	reads  = "reads"
	lists  = "lists"
)

// scrape reads the metrics of a process.
func scrape(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// metric reads a value of a metric without labels, or the sum over all labels that contain a text.
func metric(text []byte, name, labels string) (float64, error) {
	sum, found := 0.0, false
	for line := range bytes.Lines(text) {
		rest, ok := strings.CutPrefix(string(line), name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' || !strings.Contains(rest, labels) {
			continue
		}
		fields := strings.Fields(rest[strings.LastIndexByte(rest, '}')+1:])
		if len(fields) == 0 {
			continue
		}
		value, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum, found = sum+value, true
	}
	if !found && labels == "" {
		return 0, fmt.Errorf("no metric %s", name)
	}
	return sum, nil
}
