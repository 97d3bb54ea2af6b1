// SPDX-License-Identifier: Apache-2.0

package world

// Named is a switch with its name and the scenario in which the rule that it turns off is missed.
type Named struct {
	Switch Switch
	Name   string
	// Scenario is the scenario's name.
	Scenario string
}

// Switches are the rules that can be turned off, one at a time.
func Switches() []Named {
	return []Named{
		{CachedList, "cached list in the agent", "starting"},
		{NotReadyIsGone, "NOTREADY taken as gone", "deletion"},
		{InFlightOff, "in-flight rule off", "starting"},
		{IdentityPerPod, "machine identity kept per pod instead of per sandbox", "replacement"},
		{ReplacementBelieved, "a replacement kubelet's report believed", "replacement"},
		{NoCompare, "release without compare", "deletion"},
		{AnswerKept, "answer kept after abort", "reboot, old ID"},
		{OnlyReadyNodes, "only Ready nodes' silence counted", "orphan"},
		{ByName, "attribution by name", "namesake"},
		{TaintAlone, "out-of-service without NotReady", "fence, nobody answers"},
		{BySandboxAlone, "answer keyed by sandbox ID alone after a node was re-registered", "re-registration, silent"},
		{OtherBoot, "answer of another boot counted", "taken over"},
		{SuccessorIgnored, "successor ignored", "made anew, old ID"},
		{FenceNotAsked, "fence not asked", "fence"},
		{WriterIgnored, "writer of the end ignored", "re-registration"},
	}
}

// Find is the scenario of a name, among all of them; false if there is none.
func Find(name string) (Scenario, bool) {
	for _, scenario := range append(Scenarios(), Gaps()...) {
		if scenario.Name == name {
			return scenario, true
		}
	}
	return Scenario{}, false
}

// Gaps are scenarios without one of the assumptions on which the design rests: what happens then is known, and is shown.
func Gaps() []Scenario {
	informed, _ := scenario("made anew, old ID")
	informed.Name, informed.About = "a kubelet is late, old ID", "a kubelet that missed the deletion makes a sandbox after the old one was found gone, under the old one's entry"
	informed.LateKubelet = true
	inTime, _ := scenario("made anew, old ID")
	inTime.Name, inTime.About = "made late, old ID", "a sandbox is in the making, under the old one's entry, when the grace period is over"
	inTime.LateMaking = true
	back, _ := scenario("taken over")
	back.Name, back.About = "a Node object is taken back", "another machine under the same Node object ends the pod, and the first one has the object back before the controller looks"
	back.TakesBack = true
	return []Scenario{informed, inTime, back}
}

func scenario(name string) (Scenario, bool) {
	for _, one := range Scenarios() {
		if one.Name == name {
			return one, true
		}
	}
	return Scenario{}, false
}
