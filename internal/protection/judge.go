// SPDX-License-Identifier: Apache-2.0

package protection

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

// Verdict is what is known of one network. The zero value is invalid on purpose: it counts as Unresolved.
type Verdict int

// The verdicts.
const (
	// Guarded: a backend manages an IPAM of the network.
	Guarded Verdict = iota + 1
	// Unguarded: the definition is known, and no backend manages any IPAM of it.
	Unguarded
	// Unresolved: it is unknown.
	Unresolved
)

// NetworkJudgement is the verdict on one network.
type NetworkJudgement struct {
	Network podnetwork.Attachment
	Verdict Verdict
	// State is that of the definition.
	State State
	// Message describes what the verdict rests on.
	Message string
	// Err is the mistake in the definition that makes the network unresolved, if it is one: podnetwork.ErrNoConfig, a
	// configuration that cannot be read, or the failed read.
	Err error
}

func judge(network Network, manages Manages) NetworkJudgement {
	judgement := NetworkJudgement{Network: network.Attachment, Verdict: Unresolved, State: network.Definition.State}
	switch network.Definition.State {
	case Known:
		return judgeConfig(judgement, network.Definition.Config, manages)
	case Absent:
		judgement.Message = fmt.Sprintf("NetworkAttachmentDefinition %s does not exist (yet)", network)
	default:
		judgement.State, judgement.Err = Unknown, network.Definition.Err
		judgement.Message = fmt.Sprintf("NetworkAttachmentDefinition %s was not read", network)
		if judgement.Err != nil {
			judgement.Message = fmt.Sprintf("NetworkAttachmentDefinition %s could not be read: %v", network, judgement.Err)
		}
	}
	return judgement
}

func judgeConfig(judgement NetworkJudgement, config string, manages Manages) NetworkJudgement {
	ipams, err := podnetwork.IPAMsOf(config)
	if err != nil {
		judgement.Err = err
		judgement.Message = fmt.Sprintf("NetworkAttachmentDefinition %s: %v", judgement.Network, err)
		return judgement
	}
	judgement.Verdict = Unguarded
	judgement.Message = fmt.Sprintf("no backend manages an IPAM of NetworkAttachmentDefinition %s", judgement.Network)
	for _, ipam := range ipams {
		if manages(ipam) {
			judgement.Verdict = Guarded
			judgement.Message = fmt.Sprintf("NetworkAttachmentDefinition %s uses the IPAM %s", judgement.Network, ipam.Type)
			break
		}
	}
	return judgement
}
