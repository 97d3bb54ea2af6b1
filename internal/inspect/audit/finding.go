// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// Class is what kind of contradiction a finding is.
type Class string

// The classes.
const (
	Duplicate  Class = "Duplicate"
	Leak       Class = "Leak"
	Unrecorded Class = "Unrecorded"
	Stale      Class = "Stale"
	Conflict   Class = "Conflict"
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
	// Looked says how much was compared.
	Looked   Looked    `json:"looked"`
	Findings []Finding `json:"findings"`
	// NotServed are the types that the API server does not serve: there is none of them, and Notes say what that means for the findings.
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
	// Address, Pods ("namespace/name") and UIDs are who and what it is about, whether there is an entry or not.
	Address string      `json:"address,omitempty"`
	Pods    []string    `json:"pods,omitempty"`
	UIDs    []types.UID `json:"uids,omitempty"`
	Node    string      `json:"node,omitempty"`
	Message string      `json:"message"`
	// Do says what to do about it.
	Do string `json:"do"`
	// Releasable says that the entry may be released where a later report agrees on it. KeptBecause says why not, for a leak.
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

func (r *Report) add(f Finding) { r.Findings = append(r.Findings, f) }

// sort puts the most urgent first, and what is equally urgent into an order that does not depend on Go's maps.
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
