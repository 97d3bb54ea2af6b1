// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"time"

	whereaboutsv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/history"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// trace is what the machines' history shows beyond the list of sandboxes.
type trace struct {
	added    map[onSandbox]time.Time
	removed  map[string]time.Time   // by sandbox ID: its network namespace is closed, its record gone
	powerCut map[string][]time.Time // by node
}

type onSandbox struct{ sandbox, ip string }

func traceOf(events []api.Event) trace {
	t := trace{added: map[onSandbox]time.Time{}, removed: map[string]time.Time{}, powerCut: map[string][]time.Time{}}
	for _, e := range events {
		switch e.Event {
		case api.EventAdd:
			t.added[onSandbox{e.SandboxID, e.IP}] = e.Time
		case api.EventRemove:
			t.removed[e.SandboxID] = e.Time
		case api.EventPowerOff:
			t.powerCut[e.Node] = append(t.powerCut[e.Node], e.Time)
		}
	}
	return t
}

// gone is when the last of a sandbox was gone: not with its process, which ends before CNI DEL, but with its network
// namespace, in which its addresses are until then; or with its machine.
func (t trace) gone(s api.Sandbox) (time.Time, bool) {
	if s.Alive || s.EndedAt == nil {
		return time.Time{}, false
	}
	removed, found := t.removed[s.ID]
	for _, cut := range t.powerCut[s.Node] {
		if cut.Before(s.CreatedAt) {
			continue
		}
		// After a reboot the record is removed much later than all of this ended.
		if end := history.Later(*s.EndedAt, cut); !found || end.Before(removed) {
			return end, true
		}
		break
	}
	return removed, found
}

// sandboxes are those of the simulated machines, with the times of the machines' own history. What is no address is an
// error, since a sandbox that is not counted could hide a duplicate.
func sandboxes(list []api.Sandbox, events []api.Event) ([]history.Sandbox, error) {
	t := traceOf(events)
	var errs []error
	seen := make([]history.Sandbox, 0, len(list))
	for _, s := range list {
		ended, gone := t.gone(s)
		sandbox := history.Sandbox{
			ID: s.ID, Node: s.Node, Pod: s.PodNamespace + "/" + s.PodName, PodUID: s.PodUID,
			Alive: !gone, Ready: s.State == api.StateReady, Ended: ended,
		}
		for _, a := range s.Addresses {
			ip, err := netip.ParseAddr(a.IP)
			if err != nil {
				errs = append(errs, fmt.Errorf("sandbox %s on %s, interface %s: %w", s.ID, s.Node, a.Interface, err))
				continue
			}
			sandbox.Addresses = append(sandbox.Addresses, history.Address{IP: ip.Unmap(), Since: t.added[onSandbox{s.ID, a.IP}]})
		}
		seen = append(seen, sandbox)
	}
	return seen, errors.Join(errs...)
}

// nodeStates joins what the machines say with what the API server says: a node is live only where both do.
func nodeStates(machines []api.Node, objects []corev1.Node) map[string]history.NodeState {
	acts := map[string]bool{}
	for _, m := range machines {
		acts[m.Name] = !m.Frozen && !m.CutOff && !m.PoweredOff
	}
	states := map[string]history.NodeState{}
	for _, n := range objects {
		ready := IsReady(&n)
		switch {
		case ready && acts[n.Name]:
			states[n.Name] = history.NodeLive
		case !ready && isOutOfService(n):
			states[n.Name] = history.NodeOutOfService
		default:
			states[n.Name] = history.NodeNotResponding
		}
	}
	return states
}

// IsReady reports whether the API server counts the node as Ready.
func IsReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func isOutOfService(n corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			return true
		}
	}
	return false
}

// entries are the records of the pools. A pool that cannot be read is an error, since it could hide a leak.
func entries(pools []whereaboutsv1alpha1.IPPool) ([]history.Entry, error) {
	var all []history.Entry
	var errs []error
	for _, pool := range pools {
		name := pool.Namespace + "/" + pool.Name
		prefix, err := netip.ParsePrefix(pool.Spec.Range)
		if err != nil {
			errs = append(errs, fmt.Errorf("IPPool %s: range %q: %w", name, pool.Spec.Range, err))
			continue
		}
		for offset, allocation := range pool.Spec.Allocations {
			ip, err := nth(prefix, offset)
			if err != nil {
				errs = append(errs, fmt.Errorf("IPPool %s: %w", name, err))
				continue
			}
			all = append(all, history.Entry{Pool: name, IP: ip, SandboxID: allocation.ContainerID, PodRef: allocation.PodRef})
		}
	}
	return all, errors.Join(errs...)
}

// nth is the address at an offset, in decimal, from the first one of the range: the way in which whereabouts counts.
func nth(prefix netip.Prefix, offset string) (netip.Addr, error) {
	n, isNumber := new(big.Int).SetString(offset, 10)
	if !isNumber || n.Sign() < 0 {
		return netip.Addr{}, fmt.Errorf("offset %q is no decimal number from 0 on", offset)
	}
	first := prefix.Masked().Addr()
	n.Add(n, new(big.Int).SetBytes(first.AsSlice()))
	if n.BitLen() > first.BitLen() {
		return netip.Addr{}, fmt.Errorf("offset %q leads outside the range %s", offset, prefix)
	}
	ip, _ := netip.AddrFromSlice(n.FillBytes(make([]byte, first.BitLen()/8)))
	if !prefix.Contains(ip) {
		return netip.Addr{}, fmt.Errorf("offset %q leads outside the range %s", offset, prefix)
	}
	return ip, nil
}
