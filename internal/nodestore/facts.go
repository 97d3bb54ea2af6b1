// SPDX-License-Identifier: Apache-2.0

package nodestore

import (
	"net/netip"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Backend is the IPAM to which a store belongs.
type Backend string

// The IPAMs whose stores are known.
const (
	// HostLocal keeps a file for each address in a folder for each network.
	HostLocal Backend = "host-local"
	// AWSIPAMD is the AWS VPC CNI's daemon, which writes all that it has assigned into one file, its checkpoint.
	AWSIPAMD Backend = "aws-ipamd"
)

// Store is one place in which an IPAM keeps addresses.
type Store struct {
	Backend Backend
	// Source is the absolute path that was configured: host-local's data directory, or the checkpoint's file.
	Source string
	// Name is the store below its source: a network of host-local, or the name of a checkpoint's file. Empty speaks of the whole source.
	Name string
}

// String is how the store is named to people.
func (s Store) String() string {
	if s.Name == "" {
		return string(s.Backend) + " store " + s.Source
	}
	return string(s.Backend) + " store " + s.Source + " (" + s.Name + ")"
}

// Entry is an address that a store has for a sandbox.
type Entry struct {
	Store Store
	IP    netip.Addr
	// SandboxID is CNI_CONTAINERID, which for the kubelet's runtimes is the ID of the pod sandbox.
	SandboxID string
	// Interface is CNI_IFNAME; empty where host-local before 0.8.0 wrote the entry.
	Interface string
	// Network is the name of the CNI network.
	Network string
	// Pod is "namespace/name" where the store has it. It identifies nothing.
	Pod string
}

// Defect is something in a store that is not as its IPAM writes it, or could not be read.
type Defect struct {
	Store Store
	// Reason is ReasonStoreUnreadable, ReasonStoreBroken or ReasonStoreVersionUnknown.
	Reason v1alpha1.Reason
	// Path is the file or folder.
	Path string
	// Message describes what was found and what was expected.
	Message string
}

// Reading is what was read of one store.
type Reading struct {
	Store Store
	// Entries are all that the store has, but for the defects.
	Entries []Entry
	Defects []Defect
	// Unknown: the content of the store is not known: it could not be read, or not be understood as a whole.
	Unknown bool
}

// Failed is a reading that gave nothing.
func Failed(store Store, reason v1alpha1.Reason, path, message string) Reading {
	return Reading{Store: store, Unknown: true, Defects: []Defect{{Store: store, Reason: reason, Path: path, Message: message}}}
}
