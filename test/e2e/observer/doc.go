// SPDX-License-Identifier: Apache-2.0

// Package observer watches who really has which address on a cluster whose nodes are network and mount namespaces of this
// machine. It is the judge of the end-to-end suite and therefore shares no code with the product, asks no API server, no IPAM
// and no runtime: it looks into the network namespaces of the nodes' sandboxes, and it listens and asks on the segment that
// the pods share (ARP, RFC 826 and RFC 5227; NDP, RFC 4861).
//
// A sandbox is its network namespace, whose inode and name no other one has while it exists. It is alive while the address is
// on an interface that is up and a process of a pod, by its cgroup, is in the namespace. When a node's own CNI DEL frees an address, the runtime has
// already ended the processes and the link goes some milliseconds later: such a namespace is closing, and a sandbox that gets the
// address meanwhile is no duplicate unless it lasts (Limits.Closing).
package observer
