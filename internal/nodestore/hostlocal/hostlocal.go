// SPDX-License-Identifier: Apache-2.0

// Package hostlocal reads the stores of the host-local IPAM on this node: a data directory, with a folder for each network, with a
// file for each address. It can remove an entry as host-local's DEL does, under host-local's lock.
package hostlocal

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodestore"
	"github.com/holdfast-dev/holdfast/internal/nodestore/storefile"
)

// Source is one data directory of host-local.
type Source struct {
	dir      string
	networks []string
	// lockTimeout bounds the wait for host-local's lock.
	lockTimeout time.Duration
}

// New makes a source of a data directory. With networks only those that exist are read.
func New(dataDir string, networks []string) *Source {
	return &Source{dir: filepath.Clean(dataDir), networks: networks, lockTimeout: lockTimeout}
}

// Dir is the data directory, as the stores name it (nodestore.Store.Source).
func (s *Source) Dir() string { return s.dir }

// Read reads every network, without a lock: a file may be seen between being made and being written. A data directory that is not
// there is one of no networks.
func (s *Source) Read() []nodestore.Reading {
	whole := nodestore.Store{Backend: nodestore.HostLocal, Source: s.dir}
	root, err := os.OpenRoot(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return []nodestore.Reading{{Store: whole}}
	}
	if err != nil {
		return []nodestore.Reading{unreadable(whole, s.dir, err)}
	}
	defer root.Close()
	names, err := list(root)
	if err != nil {
		return []nodestore.Reading{unreadable(whole, s.dir, err)}
	}
	top := nodestore.Reading{Store: whole}
	readings := []nodestore.Reading{}
	for _, entry := range names {
		switch {
		case entry.IsDir() && s.covers(entry.Name()):
			if r, there := s.readNetwork(root, entry.Name()); there {
				readings = append(readings, r)
			}
		case !entry.IsDir() && isAddress(entry.Name()):
			top.Defects = append(top.Defects, nodestore.Defect{Store: whole, Reason: v1alpha1.ReasonStoreBroken, Path: filepath.Join(s.dir, entry.Name()),
				Message: "an address outside the folder of a network: if this is the folder of one, configure the folder above it"})
		}
	}
	return append(readings, top)
}

func (s *Source) covers(network string) bool {
	return len(s.networks) == 0 || slices.Contains(s.networks, network)
}

// Fingerprint changes when an entry is added or removed. It is cheap, and only ever a hint.
func (s *Source) Fingerprint() string {
	var times strings.Builder
	note := func(path string) {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			fmt.Fprintf(&times, "%s %d\n", path, info.ModTime().UnixNano())
		}
	}
	note(s.dir)
	networks, err := os.ReadDir(s.dir)
	if err != nil {
		return times.String()
	}
	for _, entry := range networks {
		if entry.IsDir() && s.covers(entry.Name()) {
			note(filepath.Join(s.dir, entry.Name()))
		}
	}
	return times.String()
}

// readNetwork reads a network's folder; false if it is not there any more.
func (s *Source) readNetwork(root *os.Root, network string) (nodestore.Reading, bool) {
	store := nodestore.Store{Backend: nodestore.HostLocal, Source: s.dir, Name: network}
	path := filepath.Join(s.dir, network)
	folder, err := root.OpenRoot(network)
	if errors.Is(err, fs.ErrNotExist) {
		return nodestore.Reading{}, false
	}
	if err != nil {
		return unreadable(store, path, err), true
	}
	defer folder.Close()
	files, err := list(folder)
	if err != nil {
		return unreadable(store, path, err), true
	}
	read := nodestore.Reading{Store: store}
	for _, file := range files {
		if !nodestore.IsHostLocalEntry(file.Name()) {
			continue
		}
		entry, reason, err := readEntry(folder, store, file.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			// A DEL came between.
		case err != nil:
			read.Defects = append(read.Defects, nodestore.Defect{Store: store, Reason: reason, Path: filepath.Join(path, file.Name()), Message: err.Error()})
		default:
			read.Entries = append(read.Entries, entry)
		}
	}
	return read, true
}

// readEntry reads the entry in a file, and returns the reason of an error.
func readEntry(folder *os.Root, store nodestore.Store, name string) (nodestore.Entry, v1alpha1.Reason, error) {
	content, err := storefile.Read(folder, name, nodestore.MaxHostLocalFile)
	switch {
	case errors.Is(err, storefile.ErrNotRegular):
		return nodestore.Entry{}, v1alpha1.ReasonStoreBroken, err
	case err != nil:
		return nodestore.Entry{}, v1alpha1.ReasonStoreUnreadable, err
	}
	entry, err := nodestore.ParseHostLocal(store, name, content)
	return entry, v1alpha1.ReasonStoreBroken, err
}

func list(folder *os.Root) ([]fs.DirEntry, error) {
	return fs.ReadDir(folder.FS(), ".")
}

func unreadable(store nodestore.Store, path string, err error) nodestore.Reading {
	return nodestore.Failed(store, v1alpha1.ReasonStoreUnreadable, path, err.Error())
}

func isAddress(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}
