// SPDX-License-Identifier: Apache-2.0

// Package ipam is the port through which Holdfast reads and releases what an IPAM recorded. Each IPAM has a folder
// below this one; its types never leave that folder.
package ipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

// PodRef is a pod by name, as an IPAM records it. It never identifies a pod; UIDs do.
type PodRef struct {
	Namespace, Name string
}

// String gives the form "namespace/name".
func (r PodRef) String() string { return r.Namespace + "/" + r.Name }

// Key names one entry of one pool for a compare-and-release: it must match in every field (invariant I7).
type Key struct {
	// Backend is the backend's name.
	Backend string
	// Pool is the pool object as "namespace/name".
	Pool string
	// IP is the address.
	IP netip.Addr
	// SandboxID is the container ID that the IPAM recorded.
	SandboxID string
	// PodRef is the reference exactly as recorded; it need not parse.
	PodRef string
	// Interface is the interface name as recorded; empty where none is.
	Interface string
}

// KeyOf is the key of a recorded address.
func KeyOf(a *v1alpha1.AddressRecord) (Key, error) {
	ip, err := netip.ParseAddr(a.IP)
	return Key{Backend: a.Backend, Pool: a.Pool, IP: ip, SandboxID: a.SandboxID, PodRef: a.PodRef, Interface: a.Interface}, err
}

// String is for messages: address, pool and sandbox.
func (k Key) String() string {
	return fmt.Sprintf("%s in %s pool %s (sandbox %s, pod %s, interface %q)", k.IP, k.Backend, k.Pool, k.SandboxID, k.PodRef, k.Interface)
}

// Entry is one address that an IPAM has recorded as taken.
type Entry struct {
	Key
	// Owner is PodRef parsed; nil where it names no pod: empty, malformed, or a tombstone.
	Owner *PodRef
	// Releasing is the record name in a tombstone ("holdfast-releasing/<record>"); empty otherwise.
	Releasing string
	// PoolResourceVersion is the pool's resourceVersion at which the entry was read.
	PoolResourceVersion string
	Seen
}

// Seen is what this process saw of an entry; zero on live reads.
type Seen struct {
	// SeenSince is when it first saw the entry with this sandbox ID and podref.
	SeenSince time.Time
	// AddObserved is true when it saw the pool without the entry (or with another sandbox ID) before it saw the entry: its ADD happened
	// while we watched. False for all that a pool held when it was first seen (the first list, a pool restored from a backup).
	AddObserved bool
	// Whole is true when it saw every version of the pool from one without the entry on.
	Whole bool
	// Follows is the sandbox of the same podref that had the place in the version before; empty for none.
	Follows string
}

// Problem is IPAM data that cannot be read as an entry: reported, never written, never treated as absent.
type Problem struct {
	// Backend, Pool and Offset are the place; Offset is empty when the whole pool is unreadable.
	Backend, Pool, Offset string
	// PodRef and SandboxID are those of the entry, as recorded, where there are any.
	PodRef, SandboxID string
	// Message describes what was found and what was expected.
	Message string
}

// Query selects the entries that match any of its fields; an empty field selects nothing.
type Query struct {
	// Pod selects the entries whose podref it is.
	Pod PodRef
	// SandboxIDs select the entries of these sandboxes.
	SandboxIDs []string
	// Record selects the entries that carry the tombstone of that record.
	Record string
	// Places select the entries that stand there now, of any owner.
	Places []Place
	// Addresses select the entries that stand at them in any pool. A pool whose range cannot be read may have every one.
	Addresses []netip.Addr
}

// Place is where an entry stands: one address of one pool ("namespace/name").
type Place struct {
	Pool string
	IP   netip.Addr
}

// Snapshot is what a backend holds, for one query, from one source.
type Snapshot struct {
	// Entries are sorted by pool, then by address.
	Entries []Entry
	// Problems are those of the podref or the sandboxes that were asked for, and of a whole pool in which a place was asked
	// for: what stands there is then unknown, not gone. All has every one. An entry with a problem of its reference only
	// (empty, no "namespace/name") is in Entries too.
	Problems []Problem
	// PoolVersions maps the pools ("namespace/name") of the entries, and those in which a place was asked for, to the resourceVersions at which they
	// were read.
	PoolVersions map[string]string
	// Removed are the queried places and sandboxes of which this process saw the entry removed, so that the address was free. It is
	// empty on live reads.
	Removed []Removed
}

// Removed is an entry that a pool had for a sandbox.
type Removed struct {
	Place
	SandboxID string
}

// ErrChanged is wrapped by a Result whose entry no longer matches the key: another client changed it. It is no failure:
// observe and decide again.
var ErrChanged = errors.New("the entry is not the one that was decided on")

// Request is the release of one entry to its pool.
type Request struct {
	Key
	// Record is the name of the IPAllocation on whose behalf it is released; it stands in the tombstone. Once the
	// tombstone is written, the key still carries the podref from before: it finds the reservation.
	Record string
	// Standing is for Tombstone: an entry that was removed is not made again, and the result is ErrChanged.
	Standing bool
}

// Result is the outcome of one Request, at the same index. A nil Err means that the entry is removed from the pool.
type Result struct {
	Request Request
	Err     error
}

// Rewrite gives one entry to another sandbox of the same pod: the one that uses the address now.
type Rewrite struct {
	// Key is the entry as it stands, under the sandbox that is gone.
	Key
	// Successor is the sandbox that came in its place.
	Successor string
}

// Rewritten is the outcome of one Rewrite, at the same index. A nil Err means that the entry names the successor.
type Rewritten struct {
	Rewrite Rewrite
	Err     error
}

// Event is a change of what the backend holds for some pods or sandboxes.
type Event struct {
	// PodRefs and SandboxIDs are those of the entries that appeared, changed or were removed.
	PodRefs    []PodRef
	SandboxIDs []string
	// Records are the record names in tombstones that appeared, changed or were removed.
	Records []string
	// Addresses are those of the entries.
	Addresses []netip.Addr
	// Pools: a pool appeared, was removed or got another range. Then other addresses are covered than before.
	Pools bool
	// Problems are those that appeared or changed; one that disappeared is not reported.
	Problems []Problem
}

// Backend is one IPAM. All methods are safe for concurrent use.
type Backend interface {
	// Name is the backend's name, as in records and metrics: "whereabouts".
	Name() string
	// PoolReference names a pool ("namespace/name") as the object of an event.
	PoolReference(pool string) *corev1.ObjectReference
	// Manages reports whether an attachment's IPAM is this backend's.
	Manages(ipam podnetwork.IPAM) bool
	// Setup registers caches, indexes and watches with the manager. It is called once, before Start.
	Setup(ctx context.Context, mgr manager.Manager) error
	// Subscribe registers a function that is called, without blocking, for each change seen. Call it before the manager starts.
	Subscribe(func(Event))
	// HasSynced reports whether the first list of every cache has been seen.
	HasSynced() bool

	// Find reads from the cache what a query selects.
	Find(q Query) Snapshot
	// All reads the whole cache: for sweeps and audits.
	All() Snapshot

	// Live reads what a query selects from the API server, past every cache. An error means unknown.
	Live(ctx context.Context, q Query) (Snapshot, error)
	// Versions reads the resourceVersions of pools ("namespace/name") past the cache; a pool that does not exist has none.
	Versions(ctx context.Context, pools []string) (map[string]string, error)
	// Release gives each entry back to its pool by compare-and-release, in the order tombstone, reservation, removal. It
	// resumes from a tombstone of the same record. One failing request does not stop the others.
	Release(ctx context.Context, requests []Request) []Result
	// Tombstone keeps each entry from other pods and releases nothing: it puts the record's tombstone in the place of the podref or,
	// where the pool has no such entry any more, makes one. It compares every field; what does not match fails with ErrChanged.
	Tombstone(ctx context.Context, requests []Request) []Result
	// Rewrite gives each entry to its successor, by comparing every field of it and changing the sandbox ID alone. An entry that is
	// the successor's already is done; any other that does not match fails with ErrChanged. One failing request does not stop the
	// others.
	Rewrite(ctx context.Context, requests []Rewrite) []Rewritten
}
