// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// batchTime is how long the events of a test are gathered; the server sends them all at once.
const batchTime = 200 * time.Millisecond

// feed is a server whose every watch begins with the next script and then ends.
type feed struct {
	*httptest.Server
	mu      sync.Mutex
	scripts [][]string
	asked   []string
}

func newFeed(t *testing.T, scripts ...[]string) *feed {
	t.Helper()
	f := &feed{scripts: scripts}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked = append(f.asked, r.Header.Get("Accept"))
		w.Header().Set("Content-Type", "application/json")
		if len(f.scripts) > 0 {
			fmt.Fprint(w, strings.Join(f.scripts[0], ""))
			f.scripts = f.scripts[1:]
		}
	}))
	t.Cleanup(f.Close)
	return f
}

func eventText(kind watch.EventType, uid string, version int) string {
	return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"}}}`+"\n", kind, uid, uid, version)
}

const listEnd = `{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"

// watched is what a client sees of one watch, until it ends.
func watched(t *testing.T, url string, f *WatchFaults, version string, lists bool) ([]string, error) {
	t.Helper()
	options := metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}
	if lists {
		options.SendInitialEvents, options.ResourceVersionMatch = new(true), metav1.ResourceVersionMatchNotOlderThan
	}
	w, err := clientOf(t, url, f.Wrap).CoreV1().ConfigMaps("ns").Watch(t.Context(), options)
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	var seen []string
	for e := range w.ResultChan() {
		if object, ok := e.Object.(*corev1.ConfigMap); ok {
			seen = append(seen, fmt.Sprintf("%s %s@%s", e.Type, object.Name, object.ResourceVersion))
		}
	}
	return seen, nil
}

func TestMergeShowsTheLastChangeOfAnObject(t *testing.T) {
	server := newFeed(t, []string{eventText("ADDED", "a", 1), eventText("MODIFIED", "a", 2), eventText("ADDED", "b", 3), eventText("MODIFIED", "a", 4),
		eventText("MODIFIED", "b", 5), eventText("DELETED", "b", 6)})
	f := NewWatchFaults(WatchOptions{MaxDelay: batchTime, Merge: 1})
	seen, err := watched(t, server.URL, f, "1", false)
	if diff := cmp.Diff([]string{"ADDED a@1", "ADDED b@3", "MODIFIED a@4", "DELETED b@6"}, seen); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got := f.Counts()["merged"]; got != 2 {
		t.Errorf("%d events were counted as merged", got)
	}
	if want := []string{"application/json"}; !slices.Equal(server.asked, want) {
		t.Errorf("the server was asked for %q", server.asked)
	}
}

func TestDroppedEventsAreFollowedByAnExpiredVersion(t *testing.T) {
	server := newFeed(t, []string{eventText("ADDED", "a", 2)}, []string{eventText("ADDED", "a", 2), listEnd})
	f := NewWatchFaults(WatchOptions{MaxDelay: time.Millisecond, Drop: 1, Replay: 1})
	seen, err := watched(t, server.URL, f, "1", false)
	if len(seen) != 0 || err != nil {
		t.Fatalf("saw %v, %v", seen, err)
	}
	if _, err := watched(t, server.URL, f, "1", false); !apierrors.IsResourceExpired(err) {
		t.Fatalf("a stream that has lost events goes on: %v", err)
	}
	seen, err = watched(t, server.URL, f, "", true)
	if diff := cmp.Diff([]string{"ADDED a@2", "BOOKMARK @1"}, seen); diff != "" || err != nil {
		t.Error("a streamed list is complete: ", diff, err)
	}
}

func TestReplayGoesBackInTimeAndComesForwardAgain(t *testing.T) {
	script := []string{eventText("ADDED", "a", 2), eventText("MODIFIED", "a", 3), eventText("DELETED", "a", 4)}
	server := newFeed(t, script, []string{eventText("ADDED", "b", 5)})
	f := NewWatchFaults(WatchOptions{MaxDelay: batchTime, Replay: 1, ReplayDepth: 2})
	seen, err := watched(t, server.URL, f, "1", false)
	want := []string{"ADDED a@2", "MODIFIED a@3", "DELETED a@4", "MODIFIED a@3", "DELETED a@4"}
	if diff := cmp.Diff(want, seen); diff != "" || err != nil {
		t.Error(diff, err)
	}
	seen, err = watched(t, server.URL, f, "4", false)
	want = []string{"MODIFIED a@3", "DELETED a@4", "ADDED b@5", "DELETED a@4", "ADDED b@5"}
	if diff := cmp.Diff(want, seen); diff != "" || err != nil {
		t.Error("after a reconnect: ", diff, err)
	}
}

func TestOldEventsAreNotReplayedToAClientThatKnowsMore(t *testing.T) {
	server := newFeed(t, []string{eventText("ADDED", "a", 2)}, []string{eventText("MODIFIED", "a", 9)})
	f := NewWatchFaults(WatchOptions{MaxDelay: batchTime, Replay: 1, ReplayDepth: 1})
	if _, err := watched(t, server.URL, f, "1", false); err != nil {
		t.Fatal(err)
	}
	seen, err := watched(t, server.URL, f, "8", false)
	if diff := cmp.Diff([]string{"MODIFIED a@9", "MODIFIED a@9"}, seen); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestCutEndsInTheMiddleOfAnEvent(t *testing.T) {
	server := newFeed(t, []string{eventText("ADDED", "a", 2), eventText("ADDED", "b", 3)})
	f := NewWatchFaults(WatchOptions{MaxDelay: batchTime, Cut: 1})
	seen, err := watched(t, server.URL, f, "1", false)
	if len(seen) != 0 || err != nil || f.Counts()["cut"] != 1 {
		t.Errorf("saw %v, %v, %v", seen, err, f.Counts())
	}
}

func TestAClientThatStopsLeavesNothingBehind(t *testing.T) {
	block := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, eventText("ADDED", "a", 2))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(block)
	}))
	defer server.Close()
	f := NewWatchFaults(WatchOptions{MaxDelay: time.Hour})
	w, err := clientOf(t, server.URL, f.Wrap).CoreV1().ConfigMaps("ns").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Stop()
	<-block
}
