// SPDX-License-Identifier: Apache-2.0

package metrics

// What the audit of a node's own IPAM stores finds. Only agents report it, and only where a store is configured. The label
// "store" is the IPAM (host-local, aws-ipamd).
var (
	// NodeStoreEntries is the number of addresses that the stores have.
	NodeStoreEntries = gauges("node_store_entries",
		"Addresses that the stores of the node's own IPAMs have recorded, by store (host-local, aws-ipamd).", "store")

	// NodeStoreFindings is the number of findings that stand.
	NodeStoreFindings = gauges("node_store_findings",
		"What is wrong in the stores of the node's own IPAMs and stands now, by store and kind (AddressLeaked, AddressOfStoppedSandbox, AddressDuplicated, "+
			"AddressInTwoNetworks, StoreUnreadable, StoreBroken, StoreVersionUnknown).", "store", "kind")

	// NodeStoreAudits counts passes by result: NodeStoreAudited, or the reason for which there was no list of the runtime.
	NodeStoreAudits = counters("node_store_audits_total",
		"Comparisons of the stores of the node's own IPAMs with the container runtime, by result (Audited, RuntimeUnreachable, ListFailed).", "result")

	// NodeStoreReclaims counts leaked addresses that were to be reclaimed by what became of them.
	NodeStoreReclaims = counters("node_store_reclaims_total",
		"Leaked addresses that were to be reclaimed from a store of the node, by result (AddressReclaimed, AddressChanged, ReclaimFailed).", "result")
)

// NodeStoreAudited is the result of a pass that had a complete list, or needed none.
const NodeStoreAudited = "Audited"
