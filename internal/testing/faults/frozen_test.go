// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// history is a server that lists an empty collection at the version that it is asked for, and whose watches send one event
// when told to.
type history struct {
	*httptest.Server
	forgotten bool
	news      chan string
	mu        sync.Mutex
	asked     []string
}

func newHistory(t *testing.T) *history {
	t.Helper()
	h := &history{news: make(chan string)}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(h.Close)
	return h
}

func (h *history) serve(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	h.mu.Lock()
	h.asked = append(h.asked, fmt.Sprintf("watch=%s rv=%s match=%s", query.Get("watch"), query.Get("resourceVersion"), query.Get("resourceVersionMatch")))
	h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if query.Get("watch") != "" {
		w.(http.Flusher).Flush()
		select {
		case text := <-h.news:
			fmt.Fprint(w, text)
		case <-r.Context().Done():
		}
		return
	}
	if h.forgotten && query.Get("resourceVersion") != "" {
		w.WriteHeader(http.StatusGone)
		return
	}
	fmt.Fprintf(w, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":%q},"items":[]}`, query.Get("resourceVersion"))
}

func (h *history) drain() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.asked
	h.asked = nil
	return asked
}

func listed(t *testing.T, client kubernetes.Interface, version string) string {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps("ns").List(t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	return list.ResourceVersion
}

func TestAFrozenCacheListsThePastAndALiveReadThePresent(t *testing.T) {
	h, f := newHistory(t), &Frozen{}
	client := clientOf(t, h.URL, f.Wrap)
	listed(t, client, "0")
	f.Freeze("41")
	if got := listed(t, client, "0"); got != "41" {
		t.Errorf("a cache's first list is at %q", got)
	}
	listed(t, clientOf(t, h.URL, f.Wrap), "77") // another process
	listed(t, client, "")
	f.Thaw()
	listed(t, client, "0")
	want := []string{"watch= rv=0 match=", "watch= rv=41 match=Exact", "watch= rv=41 match=Exact", "watch= rv= match=", "watch= rv=0 match="}
	if diff := cmp.Diff(want, h.drain()); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyTheChosenCollectionsFreeze(t *testing.T) {
	h, f := newHistory(t), &Frozen{Applies: func(c Call) bool { return c.Resource.Resource != "configmaps" }}
	f.Freeze("41")
	if got := listed(t, clientOf(t, h.URL, f.Wrap), "0"); got != "0" {
		t.Errorf("a collection that is exempt is listed at %q", got)
	}
}

func TestAForgottenVersionIsNoReasonToListThePresent(t *testing.T) {
	h, f := newHistory(t), &Frozen{}
	h.forgotten = true
	f.Freeze("41")
	_, err := clientOf(t, h.URL, f.Wrap).CoreV1().ConfigMaps("ns").List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if !apierrors.IsInternalError(err) {
		t.Errorf("got %v", err)
	}
}

func TestAFrozenWatchIsSilentUntilTheThaw(t *testing.T) {
	h, f := newHistory(t), &Frozen{}
	client := clientOf(t, h.URL, f.Wrap)
	before, err := client.CoreV1().ConfigMaps("ns").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "40"})
	if err != nil {
		t.Fatal(err)
	}
	f.Freeze("41")
	during, err := client.CoreV1().ConfigMaps("ns").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "41"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().ConfigMaps("ns").Watch(t.Context(), metav1.ListOptions{SendInitialEvents: new(true)})
	if !apierrors.IsInvalid(err) {
		t.Errorf("a frozen view must not stream lists: %v", err)
	}
	before.Stop()
	f.Thaw()
	for e := range during.ResultChan() {
		t.Errorf("the silent stream ends, and %v was shown", e)
	}
	if got := len(h.drain()); got != 1 {
		t.Errorf("%d watches reached the server, expected the first", got)
	}
}

func TestWhatComesToAnOpenStreamDuringTheFrostIsLostWithIt(t *testing.T) {
	for name, tc := range map[string]struct {
		frozen bool
		want   string
		err    error
	}{
		"without frost it is read": {false, "event", nil},
		"with frost it is not":     {true, "", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Frozen{}
			if tc.frozen {
				f.Freeze("1")
			}
			gone, leave := context.WithCancel(t.Context())
			leave() // else the read would wait for the thaw
			buffer := make([]byte, 16)
			n, err := (&silenced{ReadCloser: io.NopCloser(strings.NewReader("event")), frozen: f, ctx: gone}).Read(buffer)
			if string(buffer[:n]) != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("read %q, %v", buffer[:n], err)
			}
		})
	}
}
