// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// Name is the backend's name in records, metrics and messages.
const Name = "whereabouts"

// allocation is one key and value of spec.allocations, read. It has an entry, a problem, or both: an entry whose podref
// names no pod has both.
type allocation struct {
	entry   *ipam.Entry
	problem *ipam.Problem
	// podRef and sandboxID are as recorded; record is the record name in a tombstone.
	podRef, sandboxID, record string
	// address is that of the offset; invalid where the offset stands for none.
	address netip.Addr
}

const (
	// maxName is the longest name of an object, and the longest namespace and pod name in a record.
	maxName = 253
	// maxSandboxID leaves space for the prefix in the name of an orphan's record.
	maxSandboxID = maxName - len(v1alpha1.OrphanPrefix)
)

// checkRecordable explains why no record could name the sandbox or the pod: the CRD's limits (api/v1alpha1, SandboxRecord and
// IPAllocationSpec) count characters. An entry beyond them would be tried again and again.
func checkRecordable(sandboxID string, owner *ipam.PodRef) error {
	if sandboxID == "" {
		return errors.New("the sandbox ID is empty, expected that of a container runtime")
	}
	if n := utf8.RuneCountInString(sandboxID); n > maxSandboxID {
		return fmt.Errorf("the sandbox ID has %d characters, expected %d at most", n, maxSandboxID)
	}
	if owner == nil {
		return nil
	}
	if n := utf8.RuneCountInString(owner.Namespace); n > maxName {
		return fmt.Errorf("the podref's namespace has %d characters, expected %d at most", n, maxName)
	}
	if n := utf8.RuneCountInString(owner.Name); n > maxName {
		return fmt.Errorf("the podref's name has %d characters, expected %d at most", n, maxName)
	}
	return nil
}

// decodeAllocation reads one allocation of a pool ("namespace/name"). rangeErr means that the pool's range is
// unreadable: then there is no address, only a problem that names the podref and the sandbox.
func decodeAllocation(pool string, network netip.Prefix, rangeErr error, offset string, raw wb.IPAllocation) allocation {
	a := allocation{podRef: raw.PodRef, sandboxID: raw.ContainerID}
	owner, record, refErr := ipam.ParseReference(raw.PodRef)
	a.record = record
	address, err := decodeAddress(network, rangeErr, offset)
	if err == nil {
		a.address, err = address, checkRecordable(raw.ContainerID, owner)
	}
	if err == nil {
		a.entry = &ipam.Entry{
			Key: ipam.Key{
				Backend: Name, Pool: pool, IP: address,
				SandboxID: raw.ContainerID, PodRef: raw.PodRef, Interface: raw.IfName,
			},
			Owner: owner, Releasing: record,
		}
		err = refErr
	}
	if err != nil {
		a.problem = &ipam.Problem{
			Backend: Name, Pool: pool, Offset: offset, PodRef: raw.PodRef, SandboxID: raw.ContainerID,
			Message: fmt.Sprintf("%v; the entry stays as it is until it is corrected or removed", err),
		}
	}
	return a
}

func decodeAddress(network netip.Prefix, rangeErr error, offset string) (netip.Addr, error) {
	if rangeErr != nil {
		return netip.Addr{}, fmt.Errorf("the address of offset %q is unknown: %w", offset, rangeErr)
	}
	number, err := parseOffset(offset)
	if err != nil {
		return netip.Addr{}, err
	}
	return addressAt(network, number)
}

// tombstone is the podref of an entry that is being released on behalf of a record.
func tombstone(record string) string { return v1alpha1.TombstonePrefix + "/" + record }

// decodePool reads a pool's range; the problem is nil when it is fine.
func decodePool(pool *wb.IPPool) (netip.Prefix, *ipam.Problem, error) {
	network, err := parseRange(pool.Spec.Range)
	if err == nil {
		return network, nil, nil
	}
	return network, &ipam.Problem{
		Backend: Name, Pool: poolName(pool.Namespace, pool.Name),
		Message: fmt.Sprintf("%v; none of its %d entries can be released until it is corrected", err, len(pool.Spec.Allocations)),
	}, err
}

// poolName is how a pool is called everywhere outside of this package.
func poolName(namespace, name string) string { return namespace + "/" + name }

// keyOf is the reverse of poolName, of reservations too.
func keyOf(name string) client.ObjectKey {
	namespace, name, _ := strings.Cut(name, "/")
	return client.ObjectKey{Namespace: namespace, Name: name}
}
