// SPDX-License-Identifier: Apache-2.0

// Package podnetwork reads, purely, what networks a pod asks for and what IPAM each of them uses: the networks
// annotation in all its forms, the default-network annotation, the network-status annotation, and the CNI
// configurations in NetworkAttachmentDefinitions.
//
// It reads through the utilities of the network-attachment-definition client, the ones that Multus builds on, so that
// a pod means to Holdfast what it means to Multus. What cannot be read is an error, never an empty answer: "no
// network" and "no IPAM" are statements that somebody acts on.
package podnetwork

// IPAM is the part of a CNI plugin configuration that says who hands out addresses.
type IPAM struct {
	// Type is ipam.type, for example "whereabouts", "host-local", "static"; empty where the plugin names none.
	Type string
	// Plugin is the type of the CNI plugin in whose configuration the IPAM stands, for example "macvlan".
	Plugin string
}
