// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"context"
	"encoding/json"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/finalizer"
)

// operation is one of a JSON patch (RFC 6902). A test against null passes where the path does not exist: whereabouts
// relies on it too.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// apply makes all operations at once or none.
func apply(ctx context.Context, writer client.Client, object client.Object, operations []operation) error {
	data, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	return writer.Patch(ctx, object, client.RawPatch(types.JSONPatchType, data), client.FieldOwner(finalizer.FieldManager))
}

// step is one of the writes of a release: what it does to an entry, and how it judges what the pool holds instead.
type step struct {
	// name completes "could not … the entry".
	name string
	// operations change one entry, after testing all of it that counts. Versioned: the patch tests the pool's version.
	operations func(i *item, versioned bool) []operation
	// pending reports whether an entry, as read live, still waits for this step; nil is a removed entry. Otherwise
	// it sets the item's state or error.
	pending func(*item, *wb.IPAllocation) bool
	// after is an item's state once the step is done.
	after state
}

// The steps that write a pool. occupy is not on the ordinary way: it takes an offset that is free again, so that no pod
// gets the address while a reservation that was left behind is removed.
var (
	markStep   = step{name: "mark", operations: markOperations, pending: markPending, after: marked}
	occupyStep = step{name: "take again", operations: occupyOperations, pending: occupyPending, after: marked}
	removeStep = step{name: "remove", operations: removeOperations, pending: removePending, after: gone}
)

func markOperations(i *item, versioned bool) []operation {
	return append(testEntry(i, i.PodRef, versioned), operation{"replace", i.path() + "/podref", tombstone(i.Record)})
}

func removeOperations(i *item, versioned bool) []operation {
	return append(testEntry(i, tombstone(i.Record), versioned), operation{"remove", i.path(), nil})
}

func occupyOperations(i *item, _ bool) []operation {
	entry := wb.IPAllocation{ContainerID: i.SandboxID, PodRef: tombstone(i.Record), IfName: i.Interface}
	return []operation{{"test", i.path(), nil}, {"add", i.path(), entry}}
}

// testEntry tests every field of an entry. No interface is the field's absence, which is how whereabouts writes it; one
// that another client wrote as "" reads the same, and only the pool's version can test it.
func testEntry(i *item, podRef string, versioned bool) []operation {
	tests := []operation{
		{"test", i.path() + "/id", i.SandboxID},
		{"test", i.path() + "/podref", podRef},
	}
	switch {
	case i.Interface != "":
		tests = append(tests, operation{"test", i.path() + "/ifname", i.Interface})
	case !versioned:
		tests = append(tests, operation{"test", i.path() + "/ifname", nil})
	}
	return tests
}

func markPending(i *item, found *wb.IPAllocation) bool {
	switch {
	case found == nil:
		i.state = gone
	case i.is(found, tombstone(i.Record)):
		i.state = marked
	case i.is(found, i.PodRef):
		return true
	default:
		i.err = i.changed(found, i.PodRef)
	}
	return false
}

func removePending(i *item, found *wb.IPAllocation) bool {
	switch {
	case found == nil:
		i.state = gone
	case i.is(found, tombstone(i.Record)):
		return true
	default:
		i.err = i.changed(found, tombstone(i.Record))
	}
	return false
}

func occupyPending(i *item, found *wb.IPAllocation) bool {
	switch {
	case found == nil:
		return true
	case i.is(found, tombstone(i.Record)):
		i.state = marked
	default:
		i.err = i.changed(found, tombstone(i.Record))
	}
	return false
}
