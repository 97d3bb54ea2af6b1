// SPDX-License-Identifier: Apache-2.0

package nodes

import "github.com/holdfast-dev/holdfast/test/model/checker"

// Switches are the rules that can be turned off, one at a time. A name begins with the rule's number.
func Switches() []checker.Named[Switch] {
	return []checker.Named[Switch]{
		{Switch: LifecyclePerNode, Name: "R1: lifecycle per Node, not per machine", Scenario: "objects: a machine replaced"},
		{Switch: OneObject, Name: "R1: lifecycle of one object, not of every object that names the machine", Scenario: "objects: a machine returns"},
		{Switch: StoredVerdict, Name: "R2: a stored verdict is final", Scenario: "objects: a machine returns"},
		{Switch: OldReads, Name: "R2: reads of any age", Scenario: "objects: a machine returns"},
		{Switch: SinceAlone, Name: "R3: acquireTime ignored", Scenario: "objects: a machine returns"},
		{Switch: GapAlone, Name: "R3: a restart within two minutes is no gap", Scenario: "objects: a machine returns"},
		{Switch: LateWatch, Name: "R3: the watch of Nodes is behind the list", Scenario: "objects: a machine returns"},
		{Switch: OrphanAtOnce, Name: "R3: an orphan does not wait for acquireTime", Scenario: "objects: an orphan of a Node never seen"},
		{Switch: EpochFromCache, Name: "R4: epoch written without resourceVersion", Scenario: "objects: a pod that lives"},
		{Switch: NoObjectUID, Name: "R4: status writes without metadata.uid and resourceVersion", Scenario: "objects: an object deleted"},
		{Switch: NoAllUID, Name: "R4: acknowledgements without the UID of all", Scenario: "objects: AllNodesQuery deleted"},
		{Switch: EpochKept, Name: "R5: epoch kept after a withdrawal that was not written", Scenario: "objects: a pod that lives"},
		{Switch: ClaimsAmongResponses, Name: "R6: claims among responses", Scenario: "objects: an orphan, out of service", Holds: true},
		{Switch: OldView, Name: "R6: claims withdrawn on an older view of all", Scenario: "objects: AllNodesQuery deleted"},
		{Switch: OldClaim, Name: "R6: claim of an earlier registration counted", Scenario: "objects: an orphan, a new registration", Holds: true},
		{Switch: ClaimOfNewest, Name: "R6: claim taken for one of the object's newest machine", Scenario: "objects: an orphan, a machine replaced"},
		{Switch: IdentityKept, Name: "R8: identity never refreshed", Scenario: "objects: a new registration", Holds: true},
		{Switch: IdentityOnWrite, Name: "R8: identity not refreshed without an object", Scenario: "objects: a new registration", Holds: true},
		{Switch: NotRecreated, Name: "R10: a record's missing object is not created again", Scenario: "objects: a late record", Holds: true},
		{Switch: MissingIsGone, Name: "R10: a missing object means gone", Scenario: "objects: an object deleted"},
		{Switch: LossIgnored, Name: "R10: an object deleted by another client does not begin the observation again", Scenario: "objects: an orphan, an object deleted"},
		{Switch: CachedResponse, Name: "R11: missing response taken from a cache", Scenario: "objects: out of service"},
		{Switch: UnreadableIgnored, Name: "runtime that cannot be listed does not hold an out-of-service node", Scenario: "objects: out of service"},
		{Switch: FromMemory, Name: "acknowledgement from memory after a restore", Scenario: "objects: etcd restored"},
		{Switch: RewriteReleases, Name: "response to a Rewrite releases", Scenario: "objects: a pod that lives"},
		{Switch: OtherBoot, Name: "response of another machine or boot counted", Scenario: "objects: an object taken back"},
		{Switch: OutOfServiceSameEpoch, Name: "no epoch of its own for an out-of-service query", Scenario: "objects: out of service", Holds: true},
	}
}

// Relaxed are rules that can be turned off without harm, as far as the model shows: what they save is time or writes.
func Relaxed() []checker.Named[Switch] {
	return []checker.Named[Switch]{
		{Switch: ResumedWatch, Name: "R3: a manager that resumes the watch of Nodes from the Lease's version keeps acquireTime", Scenario: "objects: a machine returns"},
		{Switch: RemovedFirst, Name: "R7: the query removed from all before the record has its node", Scenario: "objects: an orphan"},
		{Switch: NoVersion, Name: "R9: status writes with metadata.uid alone", Scenario: "objects: an object deleted"},
		{Switch: RecordBeforeObjects, Name: "R11: record and Lease read before the objects", Scenario: "objects: an orphan, two leaders"},
		{Switch: NodesBeforeObjects, Name: "R11: Nodes read before the objects", Scenario: "objects: an orphan, two leaders"},
	}
}

// Gaps are scenarios without an assumption on which the rules rest.
func Gaps() []Scenario {
	survive, _ := Find("objects: etcd restored")
	survive.Name, survive.About = "objects: watches survive a restore", "an agent judges what its watch brought before etcd was restored"
	survive.ViewsSurvive = true
	return []Scenario{survive}
}

// Find is the scenario of a name; false if there is none.
func Find(name string) (Scenario, bool) {
	for _, scenario := range Scenarios() {
		if scenario.Name == name {
			return scenario, true
		}
	}
	return Scenario{}, false
}
