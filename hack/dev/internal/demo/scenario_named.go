// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"strings"

	whereaboutsv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode"
)

// otherNetwork has the range of networkName and more.
const otherNetwork = "blue-wide"

// namedReservation is whereabouts' reconciler against the reservation of a network that has a name.
func namedReservation() scenario {
	return scenario{
		name:  "named-network-reservation-lost",
		title: "whereabouts' own reconciler deletes the reservation of a running pod on a named network",
		harm: "Two networks of one network_name have ranges that overlap; only a reservation keeps an address of one from being handed out in " +
			"the other. whereabouts' reconciler reads the reservation's name wrongly (blue-10.0.0.1 becomes blue:10.0.0.1), finds no pod with " +
			"such an address, and deletes it. The next pod on the other network gets the address of the running one.",
		guard: "a reservation may not go while a pool holds its address for its pod. Admission refuses the deletion; the next pod gets " +
			"another address.",
		play: playNamedReservation,
		bits: 27,
		networks: func(s *stage) []network {
			return []network{
				{name: networkName, ipam: map[string]any{"range": s.part(0, 28).String(), "network_name": networkName}},
				{name: otherNetwork, ipam: map[string]any{"range": s.pool.String(), "network_name": networkName}},
			}
		},
		reconciles: 1,
	}
}

func playNamedReservation(ctx context.Context, s *stage) error {
	if err := s.turn.await(ctx); err != nil {
		return err
	}
	_, address, err := s.startPod(ctx, "web", s.first, nil)
	if err != nil {
		return err
	}
	reservation := networkName + "-" + address.String()
	if there, err := s.isReserved(ctx, reservation); err != nil || !there {
		return fmt.Errorf("there is no reservation %s (error %w), so the run shows nothing\n%s", reservation, err, s.dump(ctx))
	}
	s.note("pod web runs on %s with %s; its reservation is %s", s.first, address, reservation)
	if err := s.noteReconcile(s.reconcileInTurn(ctx), isReservationKept); err != nil {
		return err
	}
	there, err := s.isReserved(ctx, reservation)
	if err != nil {
		return err
	}
	if there != s.guard {
		return fmt.Errorf("after the reconciler's run reservation %s is there: %t; expected %t\n%s", reservation, there, s.guard, s.dump(ctx))
	}
	if _, address, err = s.startPod(ctx, "next", s.second, on(otherNetwork)); err != nil {
		return err
	}
	s.note("pod next, on the other network, runs on %s with %s", s.second, address)
	return nil
}

func (s *stage) isReserved(ctx context.Context, name string) (bool, error) {
	reservation := &whereaboutsv1alpha1.OverlappingRangeIPReservation{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: simnode.WhereaboutsNamespace, Name: name}, reservation)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading reservation %s: %w", name, err)
	}
	return true, nil
}

// isReservationKept: of reservations that it could not delete, whereabouts' reconciler reports only the names.
func isReservationKept(err error) bool {
	return strings.Contains(err.Error(), "could not reconcile cluster wide IPs")
}
