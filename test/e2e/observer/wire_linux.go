// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// wire is a packet socket on the bridge of the shared segment: it receives every frame and can send requests.
type wire struct {
	socket int
	index  int
	mac    net.HardwareAddr
}

// listenFor is how long one read waits for a frame before it looks whether it should end.
const listenFor = 200 * time.Millisecond

func openWire(bridge string) (*wire, error) {
	link, err := net.InterfaceByName(bridge)
	if err != nil {
		return nil, fmt.Errorf("finding the bridge %s of the shared segment: %w", bridge, err)
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(networkOrder(unix.ETH_P_ALL)))
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w", err)
	}
	w := &wire{socket: socket, index: link.Index, mac: link.HardwareAddr}
	if err := w.prepare(); err != nil {
		_ = unix.Close(socket)
		return nil, fmt.Errorf("listening on %s: %w", bridge, err)
	}
	return w, nil
}

func (w *wire) prepare() error {
	if err := unix.Bind(w.socket, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: w.index}); err != nil {
		return err
	}
	// A bridge hands its own port only what is meant for it; replies go from pod to pod.
	all := unix.PacketMreq{Ifindex: int32(w.index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(w.socket, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &all); err != nil {
		return err
	}
	limit := unix.NsecToTimeval(listenFor.Nanoseconds())
	return unix.SetsockoptTimeval(w.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
}

// receive waits for the next frame in which a machine claims an address; ok is false when there was none for a while.
func (w *wire) receive(buffer []byte) (address netip.Addr, mac string, ok bool, err error) {
	length, _, err := unix.Recvfrom(w.socket, buffer, 0)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return netip.Addr{}, "", false, nil
	}
	if err != nil {
		return netip.Addr{}, "", false, fmt.Errorf("reading the shared segment: %w", err)
	}
	address, mac, ok = spoken(buffer[:length])
	return address, mac, ok, nil
}

// ask sends an ARP request or a neighbor solicitation for an address. The kernel of a frozen node responds too.
func (w *wire) ask(address netip.Addr) error {
	frame := question(w.mac, address)
	if err := unix.Sendto(w.socket, frame, 0, &unix.SockaddrLinklayer{Ifindex: w.index}); err != nil {
		return fmt.Errorf("asking the shared segment who has %s: %w", address, err)
	}
	return nil
}

func (w *wire) close() error { return unix.Close(w.socket) }

func networkOrder(value uint16) uint16 {
	var bytes [2]byte
	binary.BigEndian.PutUint16(bytes[:], value)
	return binary.NativeEndian.Uint16(bytes[:])
}
