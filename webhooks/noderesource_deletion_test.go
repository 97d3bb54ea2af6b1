// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func addressesInStatus(s *v1alpha1.NodeResourcePolicySpec) {
	s.Addresses = []string{"self.status.ips.map(i, i.ip)"}
}

// holds gives an object addresses in its status.
func holds(addresses ...any) func(metadata, object fields) {
	ips := []any{}
	for _, address := range addresses {
		ips = append(ips, fields{"ip": address})
	}
	return func(_, object fields) { object["status"] = fields{"ips": ips} }
}

// unreadableStatus is a status that the policy's expression fails on.
func unreadableStatus(_, object fields) {
	object["status"] = fields{"ips": []any{fields{"other": "10.0.0.9"}}}
}

// TestI4AnObjectBeingDeletedGainsNoAddress: of Azure's objects a finalizer keeps the stale one, and the status is what hands
// addresses out.
func TestI4AnObjectBeingDeletedGainsNoAddress(t *testing.T) {
	guarded := func(change ...func(*v1alpha1.NodeResourcePolicySpec)) *nodeWorld {
		return onNode(nncPolicy(append(change, addressesInStatus)...), "live", "live")
	}
	old := nnc(stale, held, ending, holds("10.0.0.1"))
	for name, tc := range map[string]*nodeCase{
		"an address is added to the status": {world: guarded(), request: of(updateOf(old, nnc(stale, held, ending, holds("10.0.0.1", "10.0.0.2"))), toStatus),
			contains: []string{"StaleNodeUID", "is being deleted", "10.0.0.2", "adds no address"}},
		"an address is added by a write of the object": {world: guarded(), request: updateOf(old, nnc(stale, held, ending, holds("10.0.0.1", "10.0.0.2")))},
		"one address is exchanged for another":         {world: guarded(), request: updateOf(old, nnc(stale, held, ending, holds("10.0.0.2")))},
		"an address becomes a prefix around it":        {world: guarded(), request: updateOf(old, nnc(stale, held, ending, holds("10.0.0.0/24")))},
		"the first address":                            {world: guarded(), request: updateOf(nnc(stale, held, ending), nnc(stale, held, ending, holds("10.0.0.1")))},
		"one finalizer of two is dropped beside it":    {world: guarded(), request: updateOf(nnc(stale, ending, named("finalizers", []string{"a/b", "c/d"})), nnc(stale, held, ending, holds("10.0.0.1")))},
		"the stale UID is dropped beside it": {world: guarded(uidIfPresent), request: updateOf(old, nnc(held, ending, holds("10.0.0.1", "10.0.0.2"))),
			contains: []string{"StaleNodeUID"}},
		"addresses that cannot be read": {world: guarded(), request: updateOf(old, nnc(stale, held, ending, unreadableStatus)),
			contains: []string{"StaleNodeUID", "cannot be read"}},
		"an address where those before could not be read": {world: guarded(), request: updateOf(nnc(stale, held, ending, unreadableStatus), nnc(stale, held, ending, holds("10.0.0.9")))},
		"no Node, which the policy denies": {world: onNode(nncPolicy(missingNodeIsDenied, addressesInStatus), "", ""),
			request: updateOf(old, nnc(stale, held, ending, holds("10.0.0.1", "10.0.0.2"))), contains: []string{"NodeMissing"}},
		"a write without its old object": {world: guarded(), request: of(createOf(nnc(stale, held, ending, holds("10.0.0.1"))), func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update })},
	} {
		t.Run(name, func(t *testing.T) {
			tc.code, tc.reads = http.StatusForbidden, 1
			tc.check(t)
		})
	}
}

// TestAnObjectBeingDeletedMayChangeInEverythingElse: the controller that finishes its deletion must get through.
func TestAnObjectBeingDeletedMayChangeInEverythingElse(t *testing.T) {
	old := nnc(stale, held, ending, holds("10.0.0.0/24", "10.0.1.1"))
	labeled := named("labels", fields{"a": "b"})
	for name, request := range map[string]*admissionv1.AdmissionRequest{
		"an address is dropped":                                                  updateOf(old, nnc(stale, held, ending, holds("10.0.0.0/24"))),
		"an address is dropped from the status":                                  of(updateOf(old, nnc(stale, held, ending, holds("10.0.1.1"))), toStatus),
		"all addresses are dropped":                                              updateOf(old, nnc(stale, held, ending)),
		"a prefix shrinks":                                                       updateOf(old, nnc(stale, held, ending, holds("10.0.0.128/25"))),
		"one address of a prefix stays":                                          updateOf(old, nnc(stale, held, ending, holds("10.0.0.7"))),
		"the same addresses in another form":                                     updateOf(old, nnc(stale, held, ending, holds("10.0.1.1/32", "10.0.0.9/24"))),
		"something else of the spec":                                             updateOf(old, nnc(stale, held, ending, holds("10.0.1.1"), asked)),
		"a finalizer is dropped":                                                 updateOf(old, nnc(stale, ending, holds("10.0.0.0/24", "10.0.1.1"))),
		"a finalizer is dropped with the addresses":                              updateOf(old, nnc(stale, ending)),
		"a reference is dropped":                                                 updateOf(old, nnc(held, ending, holds("10.0.1.1"))),
		"a label, and no address before or after":                                updateOf(nnc(stale, held, ending), nnc(stale, held, ending, labeled)),
		"a finalizer is dropped from unreadable addresses":                       updateOf(nnc(stale, held, ending, unreadableStatus), nnc(stale, ending, unreadableStatus)),
		"the last finalizer is dropped beside an address, which ends the object": updateOf(old, nnc(stale, ending, holds("10.0.0.1", "10.9.9.9"))),
		"unreadable addresses are dropped":                                       updateOf(nnc(stale, held, ending, unreadableStatus), nnc(stale, held, ending)),
	} {
		t.Run(name, func(t *testing.T) {
			(&nodeCase{world: onNode(nncPolicy(addressesInStatus), "live", "!"), request: request, code: http.StatusOK}).check(t)
		})
	}
	t.Run("the live Node's own object gains an address", func(t *testing.T) {
		(&nodeCase{world: onNode(nncPolicy(addressesInStatus), "live", "!"), code: http.StatusOK,
			request: updateOf(nnc(mine, held, ending, holds("10.0.0.1")), nnc(mine, held, ending, holds("10.0.0.1", "10.0.0.2")))}).check(t)
	})
	t.Run("a repair of an object that gains an address", func(t *testing.T) {
		(&nodeCase{world: onNode(nncPolicy(addressesInStatus), "live", "live"), code: http.StatusOK, reads: 1,
			request: updateOf(nnc(stale, held, ending), nnc(mine, held, ending, holds("10.0.0.1")))}).check(t)
	})
}

// TestI5AnUnreadableObjectBeingDeletedGainsNoAddress: it is unknown for which node it speaks.
func TestI5AnUnreadableObjectBeingDeletedGainsNoAddress(t *testing.T) {
	unreadable := spec("nodeName", 1)
	(&nodeCase{world: onNode(nncPolicy(nodeNameFromSpec, addressesInStatus), "live", "live"), code: http.StatusUnprocessableEntity,
		request:  updateOf(nnc(unreadable, held, ending), nnc(unreadable, held, ending, holds("10.0.0.1"))),
		contains: []string{"NodeUnreadable", "10.0.0.1"}}).check(t)
}

func TestTheNodeOfAnAddressThatAnObjectBeingDeletedGainsCannotBeRead(t *testing.T) {
	(&nodeCase{world: onNode(nncPolicy(addressesInStatus), "live", "!"), code: http.StatusServiceUnavailable, reads: 1,
		request: updateOf(nnc(stale, held, ending), nnc(stale, held, ending, holds("10.0.0.1"))), contains: []string{errUnreachable.Error()}}).check(t)
}
