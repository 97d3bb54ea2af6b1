// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/node"
)

// The networks of the machines' own addresses (RFC 5737): TEST-NET-3 for the first
// machine of each name, TEST-NET-2 for those that replace one.
func firstAddress(number int) netip.Addr {
	return netip.AddrFrom4([4]byte{203, 0, 113, byte(number + 10)})
}

func laterAddress(number int) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 51, 100, byte(number + 1)})
}

// start boots a machine that is powered off: the same machine, another boot ID, no sandbox alive. What the runtime and CNI
// have on disk is still there.
func (f *Fleet) start(ctx context.Context, name string) error {
	f.changes.Lock()
	defer f.changes.Unlock()
	m := f.machine(name)
	if !m.isPoweredOff() {
		return fmt.Errorf("node %s is on already", name) // by a request of the same moment
	}
	m.note(api.EventStart)
	if err := m.awaitEnd(ctx); err != nil {
		return err
	}
	fresh, err := m.rebooted()
	if err != nil {
		return err
	}
	f.swap(m, fresh)
	return nil
}

// replacement describes how a machine is replaced.
type replacement struct {
	// deleteNode: the Node object is deleted before the new machine starts, as
	// an administrator does; otherwise the new kubelet finds it and takes it over.
	deleteNode bool
	// oldLives: the old machine is not powered off but cut off for good.
	oldLives bool
}

// replace ends a machine that exists and starts another one under its name.
func (f *Fleet) replace(ctx context.Context, name string, how replacement) error {
	f.changes.Lock()
	defer f.changes.Unlock()
	m := f.machine(name)
	if how.oldLives {
		m.note(api.EventCutOff)
		m.uplink.Set(true)
	} else {
		m.powerOff()
	}
	if how.deleteNode {
		err := f.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting node %s: %w", name, err)
		}
	}
	f.mutex.Lock()
	later := len(f.retired)
	f.mutex.Unlock()
	h, err := newHardware(f.options, slices.Index(f.options.Nodes, name), node.NewHardware(), laterAddress(later), f.history)
	if err != nil {
		return err
	}
	fresh, err := boot(f.options, h, f.history)
	if err != nil {
		return err
	}
	m.note(api.EventReplace)
	f.swap(m, fresh)
	return nil
}

// swap puts a machine in the place of another one, and runs it where the fleet
// runs.
func (f *Fleet) swap(old, fresh *machine) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.machines[slices.Index(f.machines, old)] = fresh
	if fresh.runtime != old.runtime {
		f.retired = append(f.retired, old.runtime)
	}
	if f.run != nil {
		f.run(fresh)
	}
}
