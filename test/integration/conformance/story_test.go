// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// step is one call. Its path and body may hold NS, the namespace of the story, and what earlier responses said: UID(name) and
// RV(name) of the object of that name, and CONTINUE of the last page, CABUNDLE of the webhooks.
type step struct {
	method, path, body string
	// patch is the content type of a patch, accept what the client accepts.
	patch, accept string
	// manager is the field manager. Default: story.
	manager string
	// until reads a watch up to the first event of the object of this name, of a bookmark or of an error.
	until string
	// await repeats the call until this code: admission configuration takes effect later on a real server.
	await int
	// awaitText does the same until the response contains it.
	awaitText string
}

const (
	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"

	onlyMetadata     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	onlyMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

	callTimeout = time.Minute
)

func get(path string) step        { return step{method: http.MethodGet, path: path} }
func post(path, body string) step { return step{method: http.MethodPost, path: path, body: body} }
func put(path, body string) step  { return step{method: http.MethodPut, path: path, body: body} }
func del(path, options string) step {
	return step{method: http.MethodDelete, path: path, body: options}
}
func watch(path, until string) step   { return step{method: http.MethodGet, path: path, until: until} }
func (s step) by(manager string) step { s.manager = manager; return s }
func (s step) as(accept string) step  { s.accept = accept; return s }
func (s step) awaits(code int) step   { s.await = code; return s }
func patch(kind, path, body string) step {
	return step{method: http.MethodPatch, path: path, body: body, patch: kind}
}

// player plays a story on one server.
type player struct {
	http      *http.Client
	host      string
	namespace string
	authority string // of the webhooks
	uids      map[string]string
	versions  map[string]string
	next      string
	names     canon
}

// playAll plays the steps and returns one line for each response.
func (w *player) playAll(t *testing.T, steps []step) []string {
	t.Helper()
	w.uids, w.versions, w.names = map[string]string{}, map[string]string{}, canon{namespace: w.namespace, seen: map[string]string{}, numbers: map[string]int{}}
	var lines []string
	for _, s := range steps {
		line, err := w.play(t.Context(), s)
		if err != nil {
			t.Fatalf("%s %s on %s: %v", s.method, s.path, w.host, err)
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s", s.method, s.path, line))
	}
	return lines
}

func (w *player) play(ctx context.Context, s step) (line string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if s.until != "" {
		return w.watch(ctx, s)
	}
	code, body := 0, []byte(nil)
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		response, err := w.call(ctx, s)
		if err != nil {
			return false, err
		}
		defer response.Body.Close()
		code = response.StatusCode
		body, err = io.ReadAll(response.Body)
		return (s.await == 0 || s.await == code) && bytes.Contains(body, []byte(s.awaitText)), err
	})
	if err != nil {
		return "", err
	}
	text, err := w.record(body)
	return fmt.Sprintf("%d %s", code, text), err
}

func (w *player) call(ctx context.Context, s step) (*http.Response, error) {
	path := w.fill(s.path)
	if s.method != http.MethodGet && s.method != http.MethodDelete {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		manager := s.manager
		if manager == "" {
			manager = "story"
		}
		path += separator + "fieldManager=" + manager
	}
	request, err := http.NewRequestWithContext(ctx, s.method, w.host+path, bytes.NewBufferString(w.fill(s.body)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if s.patch != "" {
		request.Header.Set("Content-Type", s.patch)
	}
	request.Header.Set("Accept", "application/json")
	if s.accept != "" {
		request.Header.Set("Accept", s.accept)
	}
	return w.http.Do(request)
}

// watch reads events until the last one that the step is about.
func (w *player) watch(ctx context.Context, s step) (string, error) {
	response, err := w.call(ctx, s)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return "", err
		}
		text, err := w.record(body)
		return fmt.Sprintf("%d %s", response.StatusCode, text), err
	}
	var events []string
	for decoder := json.NewDecoder(response.Body); ; {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := decoder.Decode(&event); err != nil {
			return "", fmt.Errorf("after %v: %w", events, err)
		}
		if event.Type == "BOOKMARK" { // its version is that of the last write, which may be another client's
			event.Object = []byte(bookmarkVersion.ReplaceAllString(string(event.Object), `"resourceVersion":""`))
		}
		text, name, err := w.names.of(event.Object)
		if err != nil {
			return "", err
		}
		events = append(events, event.Type+" "+text)
		if name == s.until || event.Type == "ERROR" || event.Type == "BOOKMARK" {
			return strings.Join(events, "\n  "), nil
		}
	}
}

var bookmarkVersion = regexp.MustCompile(`"resourceVersion":"[0-9]+"`)

var placeholder = regexp.MustCompile(`(UID|RV)\(([a-z0-9.-]+)\)`)

func (w *player) fill(text string) string {
	text = placeholder.ReplaceAllStringFunc(text, func(m string) string {
		parts := placeholder.FindStringSubmatch(m)
		known := map[string]map[string]string{"UID": w.uids, "RV": w.versions}[parts[1]]
		return known[strings.ReplaceAll(parts[2], "NS", w.namespace)]
	})
	return strings.NewReplacer("CONTINUE", w.next, "CABUNDLE", w.authority, "NS", w.namespace).Replace(text)
}

// record remembers what later steps name, and returns the response with the server's own names replaced.
func (w *player) record(body []byte) (string, error) {
	var o struct {
		Metadata struct {
			Name            string `json:"name"`
			UID             string `json:"uid"`
			ResourceVersion string `json:"resourceVersion"`
			Continue        string `json:"continue"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(body, &o); err != nil {
		return "", fmt.Errorf("%w: %s", err, body)
	}
	if o.Metadata.Name != "" {
		w.uids[o.Metadata.Name], w.versions[o.Metadata.Name] = o.Metadata.UID, o.Metadata.ResourceVersion
	}
	if o.Metadata.Continue != "" {
		w.next = o.Metadata.Continue
	}
	text, _, err := w.names.of(body)
	return text, err
}
