// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// The UIDs of pods.
const (
	firstUID  = types.UID("pod-uid")
	secondUID = types.UID("second-uid")
	agentUID  = types.UID("agent-uid")
)

// Names are made once, because they are needed at every step.
var (
	nodeUIDs  = numbered("node-uid-", 256)
	bootIDs   = numbered("boot-", 256)
	nodeNames = numbered("node-", 256)
	hardware  = numbered("machine-", 256)
	boxIDs    = [queries]string{"s0", "s1", v1alpha1.AnySandbox}
)

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := 1; i < n; i++ {
		names[i] = prefix + strconv.Itoa(i)
	}
	return names
}

// A Node UID of 0 is none, and its name is empty; so is a boot of 0.
func nodeUID(uid uint8) types.UID { return types.UID(nodeUIDs[uid]) }
func bootID(key uint8) string     { return bootIDs[key] }
func nodeName(name uint8) string  { return nodeNames[name+1] }
func boxID(k int) string          { return boxIDs[k] }

func queryIndex(id string) int { return slices.Index(boxIDs[:], id) }

// boxIndex is 1 + the number of a sandbox; 0 for none.
func boxIndex(id string) uint8 {
	if id == "" {
		return 0
	}
	return uint8(queryIndex(id) + 1)
}

// podOf is 0 for the pod's sandbox and 1 for the second pod's.
func podOf(box Box) uint8 {
	if box.Second {
		return 1
	}
	return 0
}

func podUID(index uint8) types.UID {
	return [...]types.UID{"", firstUID, secondUID}[index]
}

func podIndex(uid types.UID) uint8 {
	return uint8(slices.Index([]types.UID{"", firstUID, secondUID}, uid))
}

func podFact(index uint8) handshake.Pod {
	return handshake.Pod{UID: podUID(index), Namespace: "ns", Name: "web-0"}
}

func identity(ident Ident) v1alpha1.NodeIdentity {
	machine := hardware[ident.Machine+1]
	return v1alpha1.NodeIdentity{UID: nodeUID(ident.UID), MachineID: machine, SystemUUID: machine, BootID: bootID(bootKey(ident.Machine, ident.Boot))}
}

func machineOf(ident Ident) release.Machine { return release.MachineOf(identity(ident)) }

func queryOf(k int, query Query) v1alpha1.SandboxQuery {
	q := v1alpha1.SandboxQuery{SandboxID: boxID(k), Epoch: int64(query.Epoch), OutOfService: query.Taint != 0}
	if !query.All {
		q.BootID = bootID(query.Boot)
	}
	return q
}

func verdict(ready bool) v1alpha1.Verdict {
	if ready {
		return v1alpha1.VerdictReadyForRelease
	}
	return v1alpha1.VerdictDoNotRelease
}

func responseOf(k int, given *Response) *v1alpha1.SandboxResponse {
	return &v1alpha1.SandboxResponse{SandboxID: boxID(k), BootID: bootID(given.Boot), Epoch: int64(given.Epoch),
		Verdict: verdict(given.Ready), Reason: reasons[given.Reason], Time: metav1.NewTime(now), PodUID: podUID(given.Pod)}
}

func releaseResponse(k int, given *Response) release.Response {
	response := release.Response{SandboxID: boxID(k), NodeUID: nodeUID(given.UID), BootID: bootID(given.Boot), Epoch: int64(given.Epoch),
		Verdict: verdict(given.Ready), Reason: reasons[given.Reason], Time: now.Add(-time.Second), PodUID: podUID(given.Pod)}
	if given.Next != 0 {
		response.SuccessorID = boxID(int(given.Next) - 1)
	}
	return response
}

// reasons are those that a response can have.
var reasons = []string{
	string(v1alpha1.ReasonSandboxAbsent), string(v1alpha1.ReasonSandboxStopped), string(v1alpha1.ReasonSandboxNeverListed), string(v1alpha1.ReasonNoSandbox),
	string(v1alpha1.ReasonSandboxReady), string(v1alpha1.ReasonContainerNotExited), string(v1alpha1.ReasonNetworkNamespaceOpen),
	string(v1alpha1.ReasonNetworkNamespaceUnknown), string(v1alpha1.ReasonSandboxListed), string(v1alpha1.ReasonSandboxNotSeen),
	string(v1alpha1.ReasonSandboxOfThisNode), string(v1alpha1.ReasonSandboxReplaced), string(v1alpha1.ReasonSandboxNotLoaded),
}

func reasonIndex(reason string) uint8 {
	at := slices.Index(reasons, reason)
	if at < 0 {
		panic("an agent responded with a reason that the model does not know: " + reason)
	}
	return uint8(at)
}

// holder says which pod or sandbox has an address in the pool.
func (s *State) holder(addr int) string {
	switch holder := s.Entry[addr].Holder; holder {
	case HolderNone:
		return "free"
	case HolderOther:
		return "recorded for another pod"
	default:
		return fmt.Sprintf("recorded for s%d", holder-1)
	}
}

func (p Phase) String() string {
	return [...]string{"not begun", "starting", "READY", "NOTREADY with its network open", "NOTREADY with its network closed", "absent", "not loaded, and running"}[p]
}

func describeQueries(all [queries]Query) string {
	var parts []string
	for k, query := range all {
		switch {
		case query.Epoch == 0:
		case query.All:
			parts = append(parts, fmt.Sprintf("%s of all nodes, epoch %d", boxID(k), query.Epoch))
		default:
			parts = append(parts, fmt.Sprintf("%s of Node UID %d in %s, epoch %d", boxID(k), query.UID, bootID(query.Boot), query.Epoch))
		}
	}
	if len(parts) == 0 {
		return ": none"
	}
	return ": " + strings.Join(parts, "; ")
}

func describeList(list [boxes]Phase) string {
	var parts []string
	for b, phase := range list {
		if phase != BoxNone {
			parts = append(parts, fmt.Sprintf("s%d %s", b, phase))
		}
	}
	if len(parts) == 0 {
		return "no sandbox of the pod"
	}
	return strings.Join(parts, ", ")
}
