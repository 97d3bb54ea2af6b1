// SPDX-License-Identifier: Apache-2.0

package nodestore

import (
	"errors"
	"fmt"
	"strings"
)

// The files of a network's folder that are no entries (host-local, plugins/ipam/host-local/backend/disk).
const (
	// HostLocalLock is locked with flock by each process that reads or writes the folder.
	HostLocalLock = "lock"
	// hostLocalLastReserved starts the name of the files that have the address that was given last, one for each set of ranges.
	hostLocalLastReserved = "last_reserved_ip."
	// hostLocalLineBreak separates the sandbox ID from the interface. host-local compares the whole content, so any other separator
	// makes an entry that no DEL finds.
	hostLocalLineBreak = "\r\n"
)

// MaxHostLocalFile is the largest content that can be an entry, in bytes: a sandbox ID, a line break, an interface, and space
// for the white space that host-local ignores at both ends.
const MaxHostLocalFile = 4096

// IsHostLocalEntry reports whether a file of a network's folder is meant to be an entry.
func IsHostLocalEntry(name string) bool {
	return name != HostLocalLock && !strings.HasPrefix(name, hostLocalLastReserved)
}

// ParseHostLocal reads one entry of a host-local network: the name of a file and its content, "<sandbox ID>\r\n<interface>", or
// the sandbox ID alone as host-local before 0.8.0 wrote it. The error explains why the file is no entry.
func ParseHostLocal(store Store, name string, content []byte) (Entry, error) {
	ip, err := parseIP(name)
	if err != nil {
		return Entry{}, fmt.Errorf("the name of the file is no address: %w", err)
	}
	if len(content) > MaxHostLocalFile {
		return Entry{}, fmt.Errorf("the file has more than %d bytes", MaxHostLocalFile)
	}
	text := strings.TrimSpace(string(content))
	if text == "" {
		return Entry{}, errors.New("the file is empty: its address has no owner, and host-local never gives it out again")
	}
	id, ifName, hasInterface := strings.Cut(text, hostLocalLineBreak)
	if err := checkSandboxID(id); err != nil {
		return Entry{}, err
	}
	if hasInterface {
		if err := checkInterface(ifName); err != nil {
			return Entry{}, err
		}
	}
	return Entry{Store: store, IP: ip, SandboxID: id, Interface: ifName, Network: store.Name}, nil
}
