// SPDX-License-Identifier: Apache-2.0

package link_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/link"
)

// forward is a forwarder to a server, and a client that opens a connection for each request.
func forward(t *testing.T, links ...*link.Link) (f *link.Forwarder, url string, client *http.Client) {
	t.Helper()
	target := strings.TrimPrefix(server(t).URL, "http://")
	f, err := link.Forward(t.Context(), target, links...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return f, "http://" + f.Address(), &http.Client{Transport: transport, Timeout: patience}
}

func TestACutBreaksWhatAProcessHasOpen(t *testing.T) {
	for name, which := range map[string]int{"the uplink": 0, "the power": 1} {
		t.Run(name, func(t *testing.T) {
			links := []*link.Link{link.New(syscall.ENETUNREACH), link.New(syscall.ENETUNREACH)}
			_, url, client := forward(t, links...)
			answer, err := get(t, client, url)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			links[which].Set(true)
			expectBroken(t, answer.Body)
			if answer, err := get(t, client, url); err == nil {
				answer.Body.Close()
				t.Error("a request got through over a link that is cut")
			}
			links[which].Set(false)
			answer, err = get(t, client, url)
			if err != nil {
				t.Fatalf("after the link was mended: %v", err)
			}
			answer.Body.Close()
		})
	}
}

func TestAForwarderThatIsClosedLeavesNothing(t *testing.T) {
	f, url, client := forward(t)
	answer, err := get(t, client, url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	f.Close()
	expectBroken(t, answer.Body)
	if answer, err := get(t, client, url); err == nil {
		answer.Body.Close()
		t.Error("a request got through a forwarder that is closed")
	}
}
