// SPDX-License-Identifier: Apache-2.0

package handshake

// Pending is a mark that asks all nodes, as this agent has it before it.
type Pending struct {
	// After is a version of the agent's view of all records in which the mark was not yet; zero if there was none.
	After uint64
	// By is a version of the record that carries the mark.
	By uint64
	// Settled: the claim to it is written, or this node has nothing to claim.
	Settled bool
}

// Acknowledge gives the resourceVersion up to which this agent's silence counts: every mark to all that stood in a record at
// that version is settled. view is the version of the agent's view of the records, taken before the list that settled
// them began; last is what was acknowledged before. There is nothing to say while no mark is newer than that.
//
// A mark with By up to last was settled when that was said. Any other unsettled mark was written after its After, so that no
// version up to there contains it, whatever the records' versions say: a record's own version also grows by writes that have
// nothing to do with the mark.
func Acknowledge(marks []Pending, view, last uint64) (uint64, bool) {
	version := view
	for _, m := range marks {
		if !m.Settled && m.By > last {
			version = min(version, m.After)
		}
	}
	if version <= last {
		return 0, false
	}
	for _, m := range marks {
		if m.Settled && m.By > last && m.By <= version {
			return version, true
		}
	}
	return 0, false
}
