// SPDX-License-Identifier: Apache-2.0

package nodestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// CheckpointVersion is the form of ipamd's checkpoints that is known: every release of the AWS VPC CNI since 1.7 writes it.
const CheckpointVersion = "vpc-cni-ipam/1"

// MaxCheckpoint is the largest checkpoint that is read, in bytes. The largest machines have some thousand addresses, each some
// 300 bytes.
const MaxCheckpoint = 16 << 20

// checkpoint is the file (amazon-vpc-cni-k8s, pkg/ipamd/datastore: CheckpointData). Fields that were added within the version, and
// may be again, are left alone.
type checkpoint struct {
	Version     string             `json:"version"`
	Allocations *[]json.RawMessage `json:"allocations"`
}

type allocation struct {
	NetworkName string `json:"networkName"`
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifName"`
	IPv4        string `json:"ipv4"`
	IPv6        string `json:"ipv6"`
	// AllocationTimestamp is in nanoseconds of Unix time.
	AllocationTimestamp *int64 `json:"allocationTimestamp"`
	Metadata            struct {
		Namespace string `json:"k8sPodNamespace"`
		Name      string `json:"k8sPodName"`
	} `json:"metadata"`
}

// ParseCheckpoint reads a checkpoint of ipamd. A file that is no checkpoint, or one of another version, shows nothing about any
// address; an allocation that is not as ipamd writes it shows nothing about its own.
func ParseCheckpoint(store Store, path string, content []byte) Reading {
	if len(content) > MaxCheckpoint {
		return Failed(store, v1alpha1.ReasonStoreBroken, path, fmt.Sprintf("the file has more than %d bytes", MaxCheckpoint))
	}
	var file checkpoint
	if err := json.Unmarshal(content, &file); err != nil {
		return Failed(store, v1alpha1.ReasonStoreBroken, path, "the file is not a checkpoint of ipamd: "+err.Error())
	}
	switch {
	case file.Version == "":
		return Failed(store, v1alpha1.ReasonStoreBroken, path, "the file is not a checkpoint of ipamd: it names no version")
	case file.Version != CheckpointVersion:
		return Failed(store, v1alpha1.ReasonStoreVersionUnknown, path,
			fmt.Sprintf("the checkpoint has the version %q; only %q is known", file.Version, CheckpointVersion))
	case file.Allocations == nil:
		return Failed(store, v1alpha1.ReasonStoreBroken, path, "the checkpoint has no list of allocations")
	}
	read := Reading{Store: store}
	for at, raw := range *file.Allocations {
		entry, err := parseAllocation(store, raw)
		if err != nil {
			read.Defects = append(read.Defects, Defect{Store: store, Reason: v1alpha1.ReasonStoreBroken, Path: path,
				Message: fmt.Sprintf("allocation %d is not as ipamd writes it: %v", at, err)})
			continue
		}
		read.Entries = append(read.Entries, entry)
	}
	return read
}

func parseAllocation(store Store, raw json.RawMessage) (Entry, error) {
	var a allocation
	if err := json.Unmarshal(raw, &a); err != nil {
		return Entry{}, err
	}
	if a.NetworkName == "" || a.AllocationTimestamp == nil {
		return Entry{}, errors.New("networkName or allocationTimestamp is missing")
	}
	if err := checkSandboxID(a.ContainerID); err != nil {
		return Entry{}, err
	}
	if err := checkInterface(a.IfName); err != nil {
		return Entry{}, err
	}
	ip, err := a.ip()
	if err != nil {
		return Entry{}, err
	}
	entry := Entry{Store: store, IP: ip, SandboxID: a.ContainerID, Interface: a.IfName, Network: a.NetworkName}
	if a.Metadata.Namespace != "" && a.Metadata.Name != "" {
		entry.Pod = a.Metadata.Namespace + "/" + a.Metadata.Name
	}
	return entry, nil
}

// ip is the one address of the allocation.
func (a *allocation) ip() (netip.Addr, error) {
	if (a.IPv4 == "") == (a.IPv6 == "") {
		return netip.Addr{}, fmt.Errorf("expected one of ipv4 (%q) and ipv6 (%q)", a.IPv4, a.IPv6)
	}
	ip, err := parseIP(a.IPv4 + a.IPv6)
	if err != nil {
		return netip.Addr{}, err
	}
	if ip.Is4() != (a.IPv4 != "") {
		return netip.Addr{}, fmt.Errorf("%s is of the other family than its field", ip)
	}
	return ip, nil
}
