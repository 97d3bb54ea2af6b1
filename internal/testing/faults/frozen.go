// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// Frozen is the API server's watch cache at a standstill: while it is frozen, whoever fills a cache gets the objects of one old
// resource version and no events, and whoever reads live gets the truth. Make one, and give it to every client that is to
// see the same old world: a restarted manager too.
//
// The two are told apart by what they ask for. A cache watches, or lists at a resourceVersion ("0", or its own last one); a
// live read names none. A reflector lists without one only after the server has said that its version has expired, which a
// frozen view never says. A cache that wants its list streamed is answered as by a server that cannot, and lists.
//
// Old lists are the API server's own (resourceVersionMatch=Exact), so all collections are of one moment. The server
// remembers them until it compacts, by default for 5 to 10 minutes.
type Frozen struct {
	// Applies chooses the collections; nil is all. It is not to be changed once there are clients.
	Applies func(Call) bool

	mu sync.Mutex
	at string
	// thawed is closed when the present frost ends; nil while there is none.
	thawed chan struct{}
}

// Freeze stops the caches' world at a resource version, which any list has in its metadata. Streams that are open fall silent.
func (f *Frozen) Freeze(resourceVersion string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = resourceVersion
	if f.thawed == nil {
		f.thawed = make(chan struct{})
	}
}

// Thaw lets everything through. Streams that were silent end, so that their clients go on from the version that they know.
func (f *Frozen) Thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.thawed != nil {
		close(f.thawed)
		f.thawed = nil
	}
}

// frost is the version and the end of the present frost; nil while there is none.
func (f *Frozen) frost() (at string, thawed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at, f.thawed
}

// Wrap is for rest.Config.Wrap.
func (f *Frozen) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		call, query := CallOf(r), r.URL.Query()
		at, thawed := f.frost()
		switch {
		case f.Applies != nil && !f.Applies(call):
			return next.RoundTrip(r)
		case call.Verb == "watch" && thawed == nil:
			opened, err := next.RoundTrip(r)
			if err == nil {
				opened.Body = &silenced{ReadCloser: opened.Body, frozen: f, ctx: r.Context()}
			}
			return opened, err
		case call.Verb == "watch" && query.Get("sendInitialEvents") == "true":
			return noWatchList(r, call), nil
		case call.Verb == "watch":
			header := http.Header{"Content-Type": []string{"application/json"}}
			return response(r, http.StatusOK, header, newSilence(r.Context(), thawed), -1), nil
		case call.Verb == "list" && query.Get("resourceVersion") != "" && thawed != nil:
			return listAt(next, r, at)
		default:
			return next.RoundTrip(r)
		}
	})
}

// listAt lists what there was. If the server does not remember, that is its internal error: word of an expired version would
// make the client list the present.
func listAt(next http.RoundTripper, r *http.Request, version string) (*http.Response, error) {
	old := r.Clone(r.Context())
	query := old.URL.Query()
	query.Set("resourceVersion", version)
	query.Set("resourceVersionMatch", "Exact")
	old.URL.RawQuery = query.Encode()
	listed, err := next.RoundTrip(old)
	if err != nil || listed.StatusCode != http.StatusGone {
		return listed, err
	}
	listed.Body.Close()
	return answer(r, CallOf(r), InternalError, 0), nil
}

// silenced is the body of a watch that was open before the frost: what comes while it lasts is lost with the stream.
type silenced struct {
	io.ReadCloser
	frozen *Frozen
	ctx    context.Context //nolint:containedctx // the request's: a body has no other way to learn that its reader is gone
}

// Read reads, unless there is frost when something has come.
func (s *silenced) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	_, thawed := s.frozen.frost()
	if thawed == nil {
		return n, err
	}
	select {
	case <-thawed:
	case <-s.ctx.Done():
	}
	return 0, io.ErrUnexpectedEOF
}

// silence is the body of a watch that was opened during the frost: nothing, and at its end the end.
type silence struct {
	ctx    context.Context //nolint:containedctx // as above
	thawed <-chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newSilence(ctx context.Context, thawed <-chan struct{}) *silence {
	return &silence{ctx: ctx, thawed: thawed, closed: make(chan struct{})}
}

// Read waits for the end.
func (s *silence) Read([]byte) (int, error) {
	select {
	case <-s.thawed:
	case <-s.closed:
	case <-s.ctx.Done():
	}
	return 0, io.EOF
}

// Close ends the wait.
func (s *silence) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}
