// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"

	whereaboutsv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode"
	simnodeapi "github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// sliceName is that of the network, and so of the NodeSlicePool. The network is in whereabouts' own namespace: the
// NodeSlicePool is too, and the garbage collector deletes every object that is owned across namespaces.
const (
	sliceName      = "sliced"
	slicedNetwork  = sliceNamespace + "/" + sliceName
	sliceNamespace = simnode.WhereaboutsNamespace
)

// handedOnSlice is the slice of a node whose Node object is deleted.
func handedOnSlice() scenario {
	return scenario{
		name:  "slice-handed-on",
		title: "A node's slice of a range is given to another node while pods hold addresses of it",
		harm: "A range is divided into a slice for each node. A machine is cut off, and its Node object is deleted: whereabouts' node-slice " +
			"controller takes its slice back at once and gives it to the next node that joins. That node's pool has another name and is empty, so " +
			"its first pod gets the address of the pod that runs on the old machine.",
		guard: "a slice stays with its node while entries of it remain. Admission puts the old node's name back, in the same write, and the new " +
			"node gets the next slice.",
		play: playHandedOnSlice,
		bits: 27,
		// Made once the second node is away.
		networks: func(*stage) []network { return nil },
	}
}

func playHandedOnSlice(ctx context.Context, s *stage) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.divide(ctx); err != nil {
		return err
	}
	_, address, err := s.startPod(ctx, "one", s.first, on(slicedNetwork))
	if err != nil {
		return err
	}
	s.note("pod one runs on %s with %s", s.first, address)
	if err := s.firstLeaves(ctx); err != nil {
		return err
	}
	if err := s.secondJoins(ctx); err != nil {
		return err
	}
	if _, address, err = s.startPod(ctx, "two", s.second, on(slicedNetwork)); err != nil {
		return err
	}
	s.note("pod two runs on %s with %s", s.second, address)
	return nil
}

// divide has whereabouts divide the range. The only node gets half of it: the second one has yet to
// join.
func (s *stage) divide(ctx context.Context) error {
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventPowerOff, s.second); err != nil {
		return err
	}
	if err := s.deleteNode(ctx, s.second); err != nil {
		return err
	}
	flatFile, err := s.startSliceController(ctx)
	if err != nil {
		return err
	}
	err = s.createNetwork(ctx, network{name: sliceName, namespace: sliceNamespace, ipam: map[string]any{
		"range": s.pool.String(), "node_slice_size": "/28", "network_name": sliceName, "configuration_path": flatFile,
		// With them a reservation would stand in the way of the second pod, as long as the first is in no other pool.
		"enable_overlapping_ranges": false,
	}})
	if err != nil {
		return err
	}
	if err := s.awaitSlices(ctx, s.first, ""); err != nil {
		return err
	}
	s.note("whereabouts divides %s: slice %s belongs to %s, the other one is free", s.pool, s.part(0, 28), s.first)
	return nil
}

// firstLeaves cuts the first node off and deletes its Node object, at which whereabouts takes its slice back.
func (s *stage) firstLeaves(ctx context.Context) error {
	if err := s.cutOff(ctx, s.first); err != nil {
		return err
	}
	if err := s.deleteNode(ctx, s.first); err != nil {
		return err
	}
	s.note("an administrator deletes the Node object of %s", s.first)
	if s.guard {
		return nil // what whereabouts writes comes to no change
	}
	if err := s.awaitSlices(ctx, "", ""); err != nil {
		return err
	}
	s.note("whereabouts takes the slice of %s back", s.first)
	return nil
}

// secondJoins switches the second node on, which registers, and waits until it has a slice.
func (s *stage) secondJoins(ctx context.Context) error {
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventStart, s.second); err != nil {
		return err
	}
	if _, err := s.awaitReady(ctx, s.second, ""); err != nil {
		return err
	}
	owners := []string{s.second, ""}
	if s.guard {
		owners = []string{s.first, s.second}
	}
	if err := s.awaitSlices(ctx, owners...); err != nil {
		return err
	}
	if s.guard {
		s.note("%s joins, and gets slice %s: the first one stays with %s", s.second, s.part(1, 28), s.first)
		return nil
	}
	s.note("%s joins, and gets slice %s", s.second, s.part(0, 28))
	return nil
}

// awaitSlices waits until the slices belong to these nodes, in their order.
func (s *stage) awaitSlices(ctx context.Context, owners ...string) error {
	return s.await(ctx, fmt.Sprintf("the slices to belong to %q", owners), podTimeout, func(ctx context.Context) (bool, string, error) {
		pool := &whereaboutsv1alpha1.NodeSlicePool{}
		key := client.ObjectKey{Namespace: sliceNamespace, Name: sliceName}
		if err := s.client.Get(ctx, key, pool); err != nil {
			return false, "", err
		}
		var now []string
		for _, a := range pool.Status.Allocations {
			now = append(now, a.NodeName)
		}
		return fmt.Sprint(now) == fmt.Sprint(owners), fmt.Sprintf("they belong to %q", now), nil
	})
}
