// SPDX-License-Identifier: Apache-2.0

package nodestore

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Finding is one thing that is wrong in a store, or at least not as it will stay.
type Finding struct {
	// Kind is one of the reasons of api/v1alpha1/store_reasons.go.
	Kind  v1alpha1.Reason
	Store Store
	// Entry is the entry that it is about; zero for a defect.
	Entry Entry
	// Path is the file or folder of a defect.
	Path string
	// Message is one sentence for people that names store, address and sandbox.
	Message string
}

// key is what makes two findings the same one: maps are by it. The message about an entry may change while it is the same.
func (f *Finding) key() Finding {
	key := *f
	if !f.isDefect() {
		key.Message = ""
	}
	return key
}

func (f *Finding) isDefect() bool { return f.Entry == Entry{} }

// needsList: it was found in a list of the runtime, and only another list can show that it ended while the entry stands.
func (f *Finding) needsList() bool {
	switch f.Kind {
	case v1alpha1.ReasonAddressLeaked, v1alpha1.ReasonAddressOfStoppedSandbox, v1alpha1.ReasonAddressInTwoNetworks:
		return true
	default:
		return false
	}
}

// isProven: the rows of lists behind it are longer than any state in passing. Everything else has to be found twice in a row: the stores
// are read without their locks, and an entry is written in two steps.
func (f *Finding) isProven() bool {
	return f.Kind == v1alpha1.ReasonAddressLeaked || f.Kind == v1alpha1.ReasonAddressOfStoppedSandbox
}

// HasEvent reports whether the finding is worth an event: an address of a stopped sandbox is not.
func (f *Finding) HasEvent() bool { return f.Kind != v1alpha1.ReasonAddressOfStoppedSandbox }

func ofEntry(kind v1alpha1.Reason, e Entry, format string, args ...any) Finding {
	return Finding{Kind: kind, Store: e.Store, Entry: e, Message: fmt.Sprintf("%s has %s, but ", e.Store, e.describe()) + fmt.Sprintf(format, args...)}
}

func ofDefect(d Defect) Finding {
	return Finding{Kind: d.Reason, Store: d.Store, Path: d.Path, Message: fmt.Sprintf("%s: %s: %s", d.Store, d.Path, d.Message)}
}

// describe names address, sandbox and interface.
func (e Entry) describe() string {
	text := e.IP.String() + " for sandbox " + e.SandboxID
	if e.Interface != "" {
		text += " interface " + e.Interface
	}
	if e.Pod != "" {
		text += " (pod " + e.Pod + ")"
	}
	return text
}

func sortFindings(findings []Finding) {
	slices.SortFunc(findings, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), compareStores(x.Store, y.Store), compareEntries(x.Entry, y.Entry),
			cmp.Compare(x.Path, y.Path), cmp.Compare(x.Message, y.Message))
	})
}

func compareStores(x, y Store) int {
	return cmp.Or(cmp.Compare(x.Backend, y.Backend), cmp.Compare(x.Source, y.Source), cmp.Compare(x.Name, y.Name))
}

func compareEntries(x, y Entry) int {
	return cmp.Or(netip.Addr.Compare(x.IP, y.IP), compareStores(x.Store, y.Store), cmp.Compare(x.SandboxID, y.SandboxID),
		cmp.Compare(x.Interface, y.Interface), cmp.Compare(x.Network, y.Network), cmp.Compare(x.Pod, y.Pod))
}
