// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"fmt"
	"net"
	"sync"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// address makes an "https://host:port" where no manager is; it is closed after the spec, or after its ordered container.
type address func() string

// refuses is an address that refuses every connection: the manager's pods are gone. The port is bound, so that no other process can
// get it, and no process listens.
func refuses() string {
	GinkgoHelper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(syscall.Close(socket)).To(Succeed()) })
	Expect(syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})).To(Succeed())
	name, err := syscall.Getsockname(socket)
	Expect(err).NotTo(HaveOccurred())
	url := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	_, err = net.Dial("tcp", url)
	Expect(err).To(MatchError(syscall.ECONNREFUSED))
	return "https://" + url
}

// swallows is an address that accepts every connection and never responds: a node that hangs, a network that drops.
func swallows() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	var group sync.WaitGroup
	var connections []net.Conn
	group.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return // closed
			}
			connections = append(connections, connection)
		}
	})
	DeferCleanup(func() {
		Expect(listener.Close()).To(Succeed())
		group.Wait()
		Expect(connections).NotTo(BeEmpty(), "the address was not called: the specs proved nothing")
		for _, connection := range connections {
			Expect(connection.Close()).To(Succeed())
		}
	})
	return "https://" + listener.Addr().String()
}
