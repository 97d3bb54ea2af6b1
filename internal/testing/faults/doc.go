// SPDX-License-Identifier: Apache-2.0

// Package faults stands between a client and a real API server and does to its calls what networks, overload and old
// caches do: it is made of http.RoundTripper wrappers for rest.Config.Wrap.
//
//   - Faults fails single calls: answers that the server did not give, connections that break before a call is sent, and
//     connections that break, or calls that time out, after the server has carried the call out.
//   - WatchFaults delays, merges, drops and replays the events of watches, and cuts a stream in the middle of an event.
//   - Frozen shows caches an old resource version for as long as it is frozen, while live reads see the truth. It outlives
//     the clients that go through it, so that a restart does not help them.
//
// What none of them does is what a correct API server never does: lie to a live read, invent objects, report a write as
// done that was not, or leave a watch silent for ever after a change. What a watch has lost is always followed by the end of
// the stream and by 410 Expired, so that the client lists again.
//
// A process that dies before it sees the answer to a write leaves the same cluster as one that dies right after it; a crash
// between the two needs no wrapper of its own. TimeoutAfter is the same loss without the crash.
package faults
