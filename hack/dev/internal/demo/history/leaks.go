// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// recordKey is what makes an entry the same entry over time: once it names another sandbox, it is another one.
type recordKey struct {
	pool, sandbox string
	ip            netip.Addr
}

// Records folds the samples into one Record for each stretch of time in which a pool had an entry for a sandbox,
// ordered by address, then by time.
func (h History) Records() []Record {
	f := folding{open: map[recordKey]*Record{}, ended: map[string]ending{}, nodes: map[string]time.Time{}}
	for _, sample := range h {
		f.judgeable(sample)
		f.sandboxes(sample)
		f.entries(sample)
	}
	for _, r := range f.open {
		r.Open = true
		f.closed = append(f.closed, *r)
	}
	slices.SortFunc(f.closed, func(a, b Record) int {
		return cmp.Or(a.IP.Compare(b.IP), a.From.Compare(b.From), cmp.Compare(a.SandboxID, b.SandboxID))
	})
	return f.closed
}

// Leaks is the number of pool entries that were still there LeakWindow after their sandbox ended.
func (h History) Leaks() int {
	leaked := map[recordKey]bool{}
	for _, r := range h.Records() {
		if !r.LeakedAt.IsZero() {
			leaked[recordKey{r.Pool, r.SandboxID, r.IP}] = true
		}
	}
	return len(leaked)
}

// Undecided returns the entries of the last sample whose sandbox has ended and that have not leaked yet: a count
// taken now could miss them.
func (h History) Undecided() []Record {
	if len(h) == 0 {
		return nil
	}
	alive := map[string]bool{}
	for _, s := range h[len(h)-1].Sandboxes {
		alive[s.ID] = s.Alive
	}
	return slices.DeleteFunc(h.Records(), func(r Record) bool {
		isAlive, known := alive[r.SandboxID]
		return !r.Open || !r.LeakedAt.IsZero() || isAlive || !known
	})
}

// ending is the end of a sandbox, and the node on which it ended.
type ending struct {
	at   time.Time
	node string
}

// folding is the state of Records between two samples.
type folding struct {
	open   map[recordKey]*Record
	closed []Record
	ended  map[string]ending    // by sandbox ID
	nodes  map[string]time.Time // since when each node is live or out of service without a break
}

// judgeable notes which nodes are live or out of service in this sample.
func (f *folding) judgeable(sample Sample) {
	for node := range f.nodes {
		if state := sample.Nodes[node]; state != NodeLive && state != NodeOutOfService {
			delete(f.nodes, node)
		}
	}
	for node, state := range sample.Nodes {
		if _, known := f.nodes[node]; !known && (state == NodeLive || state == NodeOutOfService) {
			f.nodes[node] = sample.At
		}
	}
}

// sandboxes notes which sandboxes have ended by this sample.
func (f *folding) sandboxes(sample Sample) {
	for _, s := range sample.Sandboxes {
		if _, known := f.ended[s.ID]; s.Alive || known {
			continue
		}
		end := sample.At
		if !s.Ended.IsZero() && s.Ended.Before(end) {
			end = s.Ended
		}
		f.ended[s.ID] = ending{at: end, node: s.Node}
	}
}

// entries takes the entries of one sample into the records.
func (f *folding) entries(sample Sample) {
	present := map[recordKey]bool{}
	for _, e := range sample.Entries {
		k := recordKey{e.Pool, e.SandboxID, e.IP}
		present[k] = true
		if f.open[k] == nil {
			f.open[k] = &Record{Entry: e, From: sample.At}
		}
		f.open[k].To = sample.At
		f.judge(f.open[k], sample)
	}
	for k, r := range f.open {
		if !present[k] {
			r.To = sample.At
			f.closed = append(f.closed, *r)
			delete(f.open, k)
		}
	}
}

// judge completes the leak window of a record. The window begins with the latest of: the entry is there, its sandbox
// has ended, the node is live or out of service.
func (f *folding) judge(r *Record, sample Sample) {
	end, ended := f.ended[r.SandboxID]
	since, judgeable := f.nodes[end.node]
	if !ended || !judgeable || !r.LeakedAt.IsZero() {
		return
	}
	if sample.At.Sub(Later(since, Later(end.at, r.From))) >= LeakWindow {
		r.LeakedAt = sample.At
	}
}
