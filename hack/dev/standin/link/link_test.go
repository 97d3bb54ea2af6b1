// SPDX-License-Identifier: Apache-2.0

package link_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/link"
)

// patience is for what has to happen; never judged.
const patience = 10 * time.Second

// server answers every request with a first line, and keeps the answer open.
func server(t *testing.T) *httptest.Server {
	t.Helper()
	end := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(end); s.Close() })
	return s
}

func get(t *testing.T, client *http.Client, url string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client.Do(request)
}

// expectBroken expects that an answer which the server keeps open ends with an error.
func expectBroken(t *testing.T, answer io.Reader) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(answer)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a watch ended well over a link that is cut")
		}
	case <-time.After(patience):
		t.Fatal("a watch goes on over a link that is cut")
	}
}

func TestACutEndsWhatIsOnItsWayAndKeepsTheRestFromBeginning(t *testing.T) {
	s := server(t)
	l := link.New(syscall.ENETUNREACH)
	client, err := rest.HTTPClientFor(l.Apply(&rest.Config{Host: s.URL}))
	if err != nil {
		t.Fatal(err)
	}
	watch, err := get(t, client, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	line := make([]byte, len("first\n"))
	if _, err := io.ReadFull(watch.Body, line); err != nil {
		t.Fatal(err)
	}

	l.Set(true)
	l.Set(true)
	expectBroken(t, watch.Body)
	if response, err := get(t, client, s.URL); !errors.Is(err, syscall.ENETUNREACH) || !l.IsCut() {
		if err == nil {
			response.Body.Close()
		}
		t.Errorf("a request over a link that is cut: error %v, want %v", err, syscall.ENETUNREACH)
	}

	l.Set(false)
	l.Set(false)
	response, err := get(t, client, s.URL)
	if err != nil || l.IsCut() {
		t.Fatalf("a request over a link that was mended: %v", err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
}

func TestLinksInARowFailAsTheFirstThatIsCut(t *testing.T) {
	s := server(t)
	outer, inner := link.New(syscall.ECONNREFUSED), link.New(syscall.ENETUNREACH)
	client, err := rest.HTTPClientFor(outer.Apply(inner.Apply(&rest.Config{Host: s.URL})))
	if err != nil {
		t.Fatal(err)
	}
	inner.Set(true)
	expect := func(want error) {
		t.Helper()
		response, err := get(t, client, s.URL)
		if err == nil {
			response.Body.Close()
		}
		if !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
	}
	expect(syscall.ENETUNREACH)
	outer.Set(true)
	expect(syscall.ECONNREFUSED)
}
