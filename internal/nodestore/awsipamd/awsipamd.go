// SPDX-License-Identifier: Apache-2.0

// Package awsipamd reads the checkpoints of the AWS VPC CNI's daemon on this node. It never writes them: their content is in the
// daemon's memory too, which no other process can change.
package awsipamd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodestore"
	"github.com/holdfast-dev/holdfast/internal/nodestore/storefile"
)

const (
	// extension ends the name of every checkpoint.
	extension = ".json"
	// nicInfix stands before the number of a further network card: since 1.20 each has a checkpoint of its own, ipam-nic-1.json and so on.
	nicInfix = "-nic-"
)

// Source is the checkpoint of a node, with those of its further network cards beside it.
type Source struct{ path string }

// New makes a source of the checkpoint's file, as AWS_VPC_K8S_CNI_BACKING_STORE names it.
func New(path string) *Source { return &Source{path: filepath.Clean(path)} }

// Read reads every checkpoint. ipamd replaces the file as a whole, so that each is of one moment. Without a file nothing is assigned:
// the folder is empty after every boot.
func (s *Source) Read() []nodestore.Reading {
	whole := nodestore.Store{Backend: nodestore.AWSIPAMD, Source: s.path}
	folder, err := os.OpenRoot(filepath.Dir(s.path))
	if errors.Is(err, fs.ErrNotExist) {
		return []nodestore.Reading{{Store: whole}}
	}
	if err != nil {
		return []nodestore.Reading{nodestore.Failed(whole, v1alpha1.ReasonStoreUnreadable, filepath.Dir(s.path), err.Error())}
	}
	defer folder.Close()
	files, err := fs.ReadDir(folder.FS(), ".")
	if err != nil {
		return []nodestore.Reading{nodestore.Failed(whole, v1alpha1.ReasonStoreUnreadable, filepath.Dir(s.path), err.Error())}
	}
	readings := []nodestore.Reading{{Store: whole}}
	for _, file := range files {
		if !s.isCheckpoint(file.Name()) {
			continue
		}
		if r, there := s.readFile(folder, file.Name()); there {
			readings = append(readings, r)
		}
	}
	return readings
}

// readFile reads one checkpoint; false if it is not there any more.
func (s *Source) readFile(folder *os.Root, name string) (nodestore.Reading, bool) {
	store := nodestore.Store{Backend: nodestore.AWSIPAMD, Source: s.path, Name: name}
	path := filepath.Join(filepath.Dir(s.path), name)
	content, err := storefile.Read(folder, name, nodestore.MaxCheckpoint)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nodestore.Reading{}, false
	case errors.Is(err, storefile.ErrNotRegular):
		return nodestore.Failed(store, v1alpha1.ReasonStoreBroken, path, err.Error()), true
	case err != nil:
		return nodestore.Failed(store, v1alpha1.ReasonStoreUnreadable, path, err.Error()), true
	}
	return nodestore.ParseCheckpoint(store, path, content), true
}

func (s *Source) isCheckpoint(name string) bool {
	own := filepath.Base(s.path)
	if name == own {
		return true
	}
	number, found := strings.CutPrefix(name, strings.TrimSuffix(own, extension)+nicInfix)
	number, isJSON := strings.CutSuffix(number, extension)
	_, err := strconv.ParseUint(number, 10, 16)
	return found && isJSON && err == nil
}

// Fingerprint changes when a checkpoint is replaced. It is cheap, and only ever a hint.
func (s *Source) Fingerprint() string {
	files, err := os.ReadDir(filepath.Dir(s.path))
	if err != nil {
		return ""
	}
	var times strings.Builder
	for _, file := range files {
		if info, err := file.Info(); err == nil && s.isCheckpoint(file.Name()) {
			fmt.Fprintf(&times, "%s %d %d\n", file.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return times.String()
}
