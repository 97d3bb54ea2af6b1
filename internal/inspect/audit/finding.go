// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// Class is what kind of contradiction a finding is.
type Class string

// The classes.
const (
	// Duplicate: one address is used, or recorded, twice.
	Duplicate Class = "Duplicate"
	// Leak: an entry has no pod any more.
	Leak Class = "Leak"
	// Unrecorded: a pod uses what is recorded nowhere.
	Unrecorded Class = "Unrecorded"
	// Stale: a record or an object is out of date.
	Stale Class = "Stale"
	// Conflict: two claims exclude each other, and neither is proven wrong.
	Conflict Class = "Conflict"
	// Unreadable: data that cannot be read. It is never taken for an absence.
	Unreadable Class = "Unreadable"
)

// Classes are all of them, the most urgent first.
var Classes = []Class{Duplicate, Conflict, Unrecorded, Leak, Stale, Unreadable}

// Report is the outcome of an audit.
type Report struct {
	metav1.TypeMeta `json:",inline"`
	// Cluster is the UID of the namespace kube-system, Time when the audit began to read.
	Cluster types.UID   `json:"cluster"`
	Time    metav1.Time `json:"time"`
	// Looked is how much was compared.
	Looked   Looked    `json:"looked"`
	Findings []Finding `json:"findings"`
	// NotServed are the types that the API server does not serve, and Notes what that means for the findings.
	NotServed []string `json:"notServed,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	// Unread are reads that failed: what they would have shown is missing.
	Unread []string `json:"unread,omitempty"`
}

// Looked counts what was compared.
type Looked struct {
	Entries      int `json:"entries"`
	Pods         int `json:"pods"`
	Records      int `json:"records"`
	Nodes        int `json:"nodes"`
	Reservations int `json:"reservations"`
	Policies     int `json:"policies"`
	// Claimed are the entries of ResourceClaims that exist.
	Claimed int `json:"claimed,omitempty"`
}

// Finding is one contradiction.
type Finding struct {
	Class Class `json:"class"`
	// Kind is what exactly, in one word.
	Kind string `json:"kind"`
	// Entry is the pool's entry that it is about, if it is about one.
	Entry *Entry `json:"entry,omitempty"`
	// Address, Pods ("namespace/name") and UIDs are set whether there is an entry or not.
	Address string      `json:"address,omitempty"`
	Pods    []string    `json:"pods,omitempty"`
	UIDs    []types.UID `json:"uids,omitempty"`
	Node    string      `json:"node,omitempty"`
	Message string      `json:"message"`
	// Do is what to do about it.
	Do string `json:"do"`
	// Releasable: the entry may be released if a later report agrees. KeptBecause is why not, for a leak.
	Releasable  bool   `json:"releasable"`
	KeptBecause string `json:"keptBecause,omitempty"`
}

// Entry names an entry of a pool by all that a release compares.
type Entry struct {
	Backend   string `json:"backend"`
	Pool      string `json:"pool"`
	Address   string `json:"address"`
	SandboxID string `json:"sandboxID"`
	PodRef    string `json:"podRef"`
	Interface string `json:"interface"`
	// Record is the record in whose tombstone the entry stands; empty unless its release has begun.
	Record string `json:"record,omitempty"`
}

// EntryOf names an entry.
func EntryOf(e *ipam.Entry) *Entry {
	return &Entry{Backend: e.Backend, Pool: e.Pool, Address: e.IP.String(), SandboxID: e.SandboxID, PodRef: e.PodRef, Interface: e.Interface, Record: e.Releasing}
}

// Key is the entry as a release compares it.
func (e *Entry) Key() (ipam.Key, error) {
	ip, err := netip.ParseAddr(e.Address)
	return ipam.Key{Backend: e.Backend, Pool: e.Pool, IP: ip, SandboxID: e.SandboxID, PodRef: e.PodRef, Interface: e.Interface}, err
}

// Attention is true where anything was found, or could not be read.
func (r *Report) Attention() bool { return len(r.Findings) > 0 || len(r.Unread) > 0 }

// sort puts the most urgent first; the rest of the order makes it independent of Go's maps.
func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(Classes, x.Class), slices.Index(Classes, y.Class)), cmp.Compare(x.Kind, y.Kind),
			compareAddresses(x.Address, y.Address), cmp.Compare(x.Message, y.Message))
	})
}

func compareAddresses(x, y string) int {
	first, errX := netip.ParseAddr(x)
	second, errY := netip.ParseAddr(y)
	if errX != nil || errY != nil {
		return cmp.Compare(x, y)
	}
	return first.Compare(second)
}

// Tables show the report.
func (r *Report) Tables(time.Time) []inspect.Table {
	var head, tail inspect.Table
	l := r.Looked
	head.Line("Compared at %s: %d entries, %d pods, %d records, %d nodes, %d reservations, %d node resource policies.",
		inspect.Timestamp(&r.Time), l.Entries, l.Pods, l.Records, l.Nodes, l.Reservations, l.Policies)
	if l.Claimed > 0 {
		head.Line("%d of the entries belong to ResourceClaims that exist.", l.Claimed)
	}
	head.Lines = append(head.Lines, r.Notes...)
	counts := map[Class]int{}
	releasable := 0
	do := inspect.Table{Heading: "WHAT TO DO", Columns: "KIND,ADDRESS,DO"}
	for i := range r.Findings {
		f := &r.Findings[i]
		counts[f.Class]++
		if f.Releasable {
			releasable++
		}
		if i == 0 || f.Kind != r.Findings[i-1].Kind || f.Do != r.Findings[i-1].Do { // once for findings of one kind
			do.Add(f.Kind, f.Address, f.Do)
		}
	}
	var parts []string
	for _, class := range Classes {
		if counts[class] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", class, counts[class]))
		}
	}
	if len(parts) > 0 {
		head.Line("Found: %s.", strings.Join(parts, ", "))
	}
	for _, unread := range r.Unread {
		tail.Line("NOT READ: %s", unread)
	}
	if releasable > 0 {
		tail.Line("%d of the leaks may be released once a later report agrees: kubectl holdfast release --from-report FIRST --from-report SECOND.", releasable)
	}
	found := inspect.TableOf("", "CLASS,KIND,ADDRESS,POD,FOUND,+UID,+NODE,+POOL,+SANDBOX,+KEPT BECAUSE", "No inconsistencies found.", r.Findings, (*Finding).cells)
	return []inspect.Table{head, found, do, tail}
}

func (f *Finding) cells() []string {
	entry, uids := Entry{}, make([]string, 0, len(f.UIDs))
	if f.Entry != nil {
		entry = *f.Entry
	}
	for _, uid := range f.UIDs {
		uids = append(uids, string(uid))
	}
	return []string{string(f.Class), f.Kind, f.Address, strings.Join(f.Pods, ","), f.Message, strings.Join(uids, ","), f.Node, entry.Pool, entry.SandboxID, f.KeptBecause}
}
