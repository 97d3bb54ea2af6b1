// SPDX-License-Identifier: Apache-2.0

// Package podnetwork reads, purely, what networks a pod requests and what IPAM each of them uses: the networks
// annotation in all its forms, the default-network annotation, the network-status annotation, and the CNI
// configurations in NetworkAttachmentDefinitions.
//
// It reads the types of the network-attachment-definition client, which Multus builds on, so that a pod means to Holdfast what
// it means to Multus; a test compares the two. What cannot be read is an error, never an empty result: "no network" and "no
// IPAM" are statements that controllers act on. All of it is written by tenants, so everything is bounded (limits.go).
package podnetwork

// IPAM is the part of a CNI plugin configuration that names the allocator of addresses.
type IPAM struct {
	// Type is ipam.type, for example "whereabouts", "host-local", "static"; empty where the plugin names none.
	Type string
	// Plugin is the type of the CNI plugin in whose configuration the IPAM stands, for example "macvlan".
	Plugin string
}
