// SPDX-License-Identifier: Apache-2.0

package world

import "github.com/holdfast-dev/holdfast/test/model/checker"

// Switches are the rules that can be turned off, one at a time.
func Switches() []checker.Named[Switch] {
	return []checker.Named[Switch]{
		{Switch: CachedList, Name: "cached list in the agent", Scenario: "starting"},
		{Switch: NotReadyIsGone, Name: "NOTREADY taken as gone", Scenario: "deletion"},
		{Switch: InFlightOff, Name: "in-flight rule off", Scenario: "starting"},
		{Switch: IdentityPerPod, Name: "machine identity kept per pod instead of per sandbox", Scenario: "replacement"},
		{Switch: ReplacementTrusted, Name: "a replacement kubelet's report trusted", Scenario: "re-registration, no agents"},
		{Switch: NoCompare, Name: "release without compare", Scenario: "deletion"},
		{Switch: ResponseKept, Name: "response kept after the deletion", Scenario: "reboot, old ID"},
		{Switch: OnlyReadyNodes, Name: "only Ready nodes queried about orphans", Scenario: "orphan"},
		{Switch: ByName, Name: "attribution by name", Scenario: "same name"},
		{Switch: TaintAlone, Name: "out-of-service without NotReady", Scenario: "out-of-service taint, no agent"},
		{Switch: BySandboxAlone, Name: "response matched by sandbox ID alone after a node was re-registered", Scenario: "re-registration, unresponsive"},
		{Switch: OtherBoot, Name: "response of another boot counted", Scenario: "taken over"},
		{Switch: SuccessorIgnored, Name: "successor ignored", Scenario: "made anew, old ID"},
		{Switch: TaintNotQueried, Name: "out-of-service node not queried", Scenario: "out-of-service taint"},
		{Switch: WriterIgnored, Name: "reporter of the termination ignored", Scenario: "re-registration, no agents"},
		{Switch: ReportIgnored, Name: "agent's report ignored after a termination", Scenario: "unloaded"},
		{Switch: UnseenIgnored, Name: "CNI DEL of a pod of which a sandbox was never recorded", Scenario: "unseen"},
		{Switch: StatusCounted, Name: "network-status counted as the kubelet's knowledge", Scenario: "made anew, no agents"},
		{Switch: NoReportPolicy, Name: "no policy about a kubelet's reports", Scenario: "forger, refused"},
		{Switch: NoIdentityPolicy, Name: "no policy about a Node's machine", Scenario: "forger, refused"},
		{Switch: ForgedEnd, Name: "a termination counted that another client may have written", Scenario: "forger, old ID"},
		{Switch: ForgedMachine, Name: "another machine counted that another client may have written", Scenario: "forged machine"},
		{Switch: ForgedLife, Name: "a report of a kubelet counted that another client may have written", Scenario: "forged report of a kubelet", Holds: true},
		{Switch: CreationDoneLate, Name: "list from before a sandbox was created counted", Scenario: "orphan, starting"},
	}
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

// Gaps are scenarios without one of the assumptions on which the design rests: what happens then is known, and is shown.
func Gaps() []Scenario {
	informed, _ := Find("made anew, old ID")
	informed.Name, informed.About = "a kubelet is late, old ID", "a kubelet that missed the deletion makes a sandbox after the old one was found gone, under the old one's entry"
	informed.LateKubelet = true
	inTime, _ := Find("made anew, old ID")
	inTime.Name, inTime.About = "made late, old ID", "a sandbox is starting, under the old one's entry, when the grace period is over"
	inTime.LateMaking = true
	back, _ := Find("taken over, no agents")
	back.Name, back.About = "a Node object is taken back", "another machine under the same Node object ends the pod, and the first one has the object back before the controller looks; no agent runs"
	back.TakesBack = true
	return []Scenario{informed, inTime, back}
}
