// SPDX-License-Identifier: Apache-2.0

package protection

import (
	"errors"
	"slices"
	"testing"
)

// variant is a network together with what the rules say of it, written down by hand and not computed by the code under test.
type variant struct {
	name                     string
	network                  Network
	guarded, unguarded, live bool
}

var variants = []variant{
	{name: "guarded, cached", network: known(guardedConfig), guarded: true},
	{name: "guarded, live", network: readLive(guardedConfig), guarded: true, live: true},
	{name: "unguarded, cached", network: known(unguardedConfig), unguarded: true},
	{name: "unguarded, live", network: readLive(unguardedConfig), unguarded: true, live: true},
	{name: "no IPAM, live", network: readLive(`{"type":"macvlan"}`), unguarded: true, live: true},
	{name: "broken, live", network: readLive("{"), live: true},
	{name: "empty, live", network: readLive(""), live: true},
	{name: "absent, cached", network: network(Definition{State: Absent})},
	{name: "absent, live", network: network(Definition{State: Absent, Live: true}), live: true},
	{name: "unknown", network: network(Definition{State: Unknown, Err: errors.New("timeout")})},
	{name: "unknown, said to be live and unguarded", network: network(Definition{State: Unknown, Live: true, Config: unguardedConfig}), live: true},
	{name: "never read", network: network(Definition{})},
}

// TestEveryCombinationOfFacts compares both questions with an oracle of one line each, over the full cross product of every
// flag and of none, one and two networks.
func TestEveryCombinationOfFacts(t *testing.T) {
	combinations := [][]variant{nil}
	for from, length := 0, 1; length <= 2; length++ {
		end := len(combinations)
		for _, shorter := range combinations[from:end] {
			for _, v := range variants {
				combinations = append(combinations, append(append([]variant(nil), shorter...), v))
			}
		}
		from = end
	}
	for flags := range 1 << 7 {
		on := func(bit int) bool { return flags&(1<<bit) != 0 }
		facts := Facts{HostNetwork: on(0), MirrorPod: on(1), ExcludedNamespace: on(2), OptedOut: on(3), NamespaceOptedOut: on(4), ClusterNetworkGuarded: on(5)}
		if on(6) {
			facts.Malformed = []error{errors.New("broken")}
		}
		for _, networks := range combinations {
			check(t, facts, networks)
		}
		if t.Failed() {
			return
		}
	}
}

func check(t *testing.T, facts Facts, networks []variant) {
	t.Helper()
	for _, v := range networks {
		facts.Networks = append(facts.Networks, v.network)
	}
	allUnguarded := !slices.ContainsFunc(networks, func(v variant) bool { return !v.unguarded })
	allLive := !slices.ContainsFunc(networks, func(v variant) bool { return !v.live })
	exempt := slices.Contains([]bool{facts.HostNetwork, facts.MirrorPod, facts.ExcludedNamespace, facts.OptedOut, facts.NamespaceOptedOut}, true)
	suspect := facts.ClusterNetworkGuarded || len(facts.Malformed) > 0
	mayBeGuarded := suspect || !allUnguarded
	proven := len(networks) > 0 && allLive && !mayBeGuarded

	got := Decide(facts, whereabouts)
	if want := !exempt && mayBeGuarded; got.Protect != want || got.Reason == "" {
		t.Errorf("%+v: got %v %q, want %v and a reason", facts, got.Protect, got.Reason, want)
	}
	unguarded := ProvablyUnguarded(facts, whereabouts)
	if unguarded != proven {
		t.Errorf("%+v: ProvablyUnguarded is %v, want %v", facts, unguarded, proven)
	}
	if unguarded && got.Protect {
		t.Errorf("%+v: protected although provably unguarded: protect and unprotect would alternate", facts)
	}
	checkJudgements(t, got, networks)
	checkBlind(t, facts, got)
}

func checkJudgements(t *testing.T, got Decision, networks []variant) {
	t.Helper()
	for i, judgement := range got.Networks {
		v := networks[i]
		if (judgement.Verdict == Guarded) != v.guarded || (judgement.Verdict == Unguarded) != v.unguarded || judgement.Message == "" {
			t.Errorf("%s: judged %+v", v.name, judgement)
		}
	}
}

// checkBlind wants the same decision without definitions where NeedsDefinitions says that they do not matter.
func checkBlind(t *testing.T, facts Facts, got Decision) {
	t.Helper()
	if NeedsDefinitions(facts) {
		return
	}
	for i := range facts.Networks {
		facts.Networks[i].Definition = Definition{}
	}
	if blind := Decide(facts, whereabouts); blind.Protect != got.Protect || blind.Reason != got.Reason {
		t.Errorf("%+v: the definitions change the decision although NeedsDefinitions says no", facts)
	}
}
