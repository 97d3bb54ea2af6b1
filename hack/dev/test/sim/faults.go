// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

// The kinds of faults.
const (
	CrashAfterWrite   Kind = "crash-after-write"
	StaleRestart      Kind = "stale-first-lists"
	TwoLeaders        Kind = "two-leaders"
	ClockJump         Kind = "clock-jump"
	AgentClockSkew    Kind = "agent-clock-skew"
	WatchDelayed      Kind = "watch-delayed"
	WatchCut          Kind = "watch-cut"
	WatchExpired      Kind = "watch-expired"
	WatchMerged       Kind = "watch-merged"
	Conflict          Kind = "conflict"
	Invalid           Kind = "invalid"
	Throttled         Kind = "throttled"
	InternalError     Kind = "internal-error"
	ResponseLost      Kind = "response-lost"
	Refused           Kind = "refused"
	AgentRestart      Kind = "agent-restart"
	ReportLate        Kind = "report-late"
	ReportLost        Kind = "report-lost"
	ReportDoubled     Kind = "report-doubled"
	RuntimeEmpty      Kind = "runtime-lists-nothing"
	RuntimeFails      Kind = "runtime-fails"
	SandboxNotLoaded  Kind = "sandbox-not-loaded"
	SandboxRestart    Kind = "sandbox-restart"
	SandboxSlow       Kind = "sandbox-slow"
	KubeletLate       Kind = "kubelet-late"
	StopFails         Kind = "stop-sandbox-fails"
	DELLost           Kind = "del-lost"
	Reboot            Kind = "node-reboot"
	Replacement       Kind = "node-replacement"
	Partition         Kind = "node-partition"
	Reregistration    Kind = "node-re-registration"
	Clone             Kind = "node-clone"
	OutOfService      Kind = "out-of-service"
	DeclaredDead      Kind = "declared-dead-alive"
	Reconciler        Kind = "reconciler"
	ControlLoop       Kind = "control-loop"
	StripFinalizer    Kind = "strip-finalizer"
	ForceDelete       Kind = "force-delete"
	Forger            Kind = "forged-status"
	TenantAnnotations Kind = "tenant-annotations"
	EntryRestored     Kind = "entry-restored"
)

// rareKinds are played only in plans with unknown owners of entries.
var rareKinds = []Kind{EntryRestored}

// kinds are all that a plan draws from.
var kinds = []Kind{CrashAfterWrite, StaleRestart, TwoLeaders, ClockJump, AgentClockSkew, WatchDelayed, WatchCut, WatchExpired, WatchMerged, Conflict, Invalid, Throttled,
	InternalError, ResponseLost, Refused, AgentRestart, ReportLate, ReportLost, ReportDoubled, RuntimeEmpty, RuntimeFails, SandboxNotLoaded, SandboxRestart, SandboxSlow, KubeletLate, StopFails, DELLost, Reboot,
	Replacement, Partition, Reregistration, Clone, OutOfService, DeclaredDead, Reconciler, ControlLoop, StripFinalizer, ForceDelete, Forger, TenantAnnotations}

// stories are kinds that often go together: those of pods and their sandboxes, of nodes, of processes and their calls, and of agents.
var stories = [][]Kind{
	{SandboxNotLoaded, SandboxRestart, SandboxRestart, SandboxSlow, KubeletLate, StopFails, DELLost, DELLost, ForceDelete, StripFinalizer, ControlLoop, WatchDelayed, CrashAfterWrite},
	{Reboot, Replacement, Partition, Reregistration, Clone, OutOfService, DeclaredDead, SandboxSlow, DELLost, ForceDelete},
	{CrashAfterWrite, StaleRestart, TwoLeaders, ClockJump, WatchDelayed, WatchCut, WatchExpired, WatchMerged, Conflict, Invalid, Throttled, InternalError, ResponseLost, Refused,
		DELLost, SandboxRestart},
	{AgentRestart, AgentClockSkew, ReportLate, ReportLost, ReportDoubled, RuntimeEmpty, RuntimeFails, SandboxNotLoaded, SandboxRestart, DELLost, Reregistration, Reboot},
}

// performers are the functions of each kind. Kinds that count themselves when they come true are in counted.
var performers = map[Kind]func(*World, Fault){
	CrashAfterWrite: (*World).crashAfterWrite,
	StaleRestart:    (*World).staleRestart, TwoLeaders: (*World).twoLeaders, ClockJump: (*World).clockJump, AgentClockSkew: (*World).skewAgent,
	WatchDelayed: (*World).delayWatches, WatchMerged: (*World).mergeWatches, WatchCut: (*World).cutWatches, WatchExpired: (*World).cutWatches,
	Conflict: (*World).inject, Invalid: (*World).inject, Throttled: (*World).inject, InternalError: (*World).inject, ResponseLost: (*World).inject,
	Refused: (*World).inject, ReportLost: (*World).inject, ReportDoubled: (*World).inject,
	AgentRestart: (*World).restartAgent, ReportLate: func(w *World, f Fault) { w.hold("agent@"+w.at(f).name, f.For) },
	RuntimeEmpty: (*World).breakRuntime, RuntimeFails: (*World).breakRuntime, SandboxSlow: (*World).breakRuntime, StopFails: (*World).breakRuntime, SandboxNotLoaded: (*World).unload, SandboxRestart: (*World).endSandbox,
	DELLost: func(w *World, f Fault) {
		m := w.near(f)
		w.locked(func() { w.usage.lostDELs[m.name] += 1 + f.N%2 })
	},
	KubeletLate: func(w *World, f Fault) { w.hold("world kubelet of "+w.near(f).name+" looks", min(f.For, soon)) },
	Reboot:      (*World).reboot, Replacement: (*World).replace, Partition: (*World).cutOff, Reregistration: (*World).reregister, Clone: (*World).clone,
	OutOfService: (*World).declareDead, DeclaredDead: (*World).declareDeadAlive, Reconciler: (*World).reconcile, ControlLoop: (*World).collectEntries, StripFinalizer: (*World).strip, ForceDelete: (*World).forceDelete,
	Forger: (*World).forge, TenantAnnotations: (*World).annotate, EntryRestored: (*World).restoreEntry,
}

// counted are the kinds that are counted when they affect a call.
var counted = []Kind{CrashAfterWrite, Conflict, Invalid, Throttled, InternalError, ResponseLost, Refused, ReportLost, ReportDoubled, ControlLoop, EntryRestored}

func (w *World) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// playFaults begins each fault of the plan at its time.
func (w *World) playFaults() {
	for _, f := range w.plan.Faults {
		w.act(func() {
			if !rested(w.ctx, f.At-w.since()) || !w.turn(w.ctx, "fault %s", f) {
				return
			}
			w.note("FAULT %s", f)
			if !slices.Contains(counted, f.Kind) {
				w.locked(func() { w.faults[f.Kind]++ })
			}
			performers[f.Kind](w, f)
		})
	}
}

// nodeOf is the name of the node that a fault affects, if any.
func nodeOf(f Fault) string {
	if f.Who != "manager" {
		return f.Who
	}
	return []string{"node-1", "node-2"}[f.N%2]
}

// at is the machine that a fault affects.
func (w *World) at(f Fault) *machine {
	name := nodeOf(f)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.machines) - 1; i >= 0; i-- {
		if w.machines[i].node == name {
			return w.machines[i]
		}
	}
	panic("no machine " + name)
}

// near is the machine of the pod that a fault affects, or else of the fault's node.
func (w *World) near(f Fault) *machine {
	if pod := w.target(f); pod != nil && pod.Spec.NodeName != "" {
		f.Who = pod.Spec.NodeName
	}
	return w.at(f)
}

// inject makes the next calls of a process fail.
func (w *World) inject(f Fault) {
	i := &injection{kind: f.Kind, client: "manager", left: f.N, writes: f.Kind == Conflict || f.Kind == Invalid || f.Kind == ResponseLost}
	isReport := f.Kind == ReportLost || f.Kind == ReportDoubled
	if isReport || f.Who != "manager" {
		i.client = "agent@" + w.at(f).name
	}
	i.writes = i.writes || isReport
	w.locked(func() { w.injected = append(w.injected, i) })
	w.after(f.For, func() { w.locked(func() { i.left = 0 }) })
}

// processOf is the prefix of the client that a fault affects.
func (w *World) processOf(f Fault) string {
	if f.Who == "manager" {
		return "manager"
	}
	return "agent@" + w.at(f).name
}

// delayWatches delays all watches of a process or, so that one is late where the others are not, those of one resource. Half of these are late behind
// the next change of the resource, which they still show.
func (w *World) delayWatches(f Fault) {
	streams := w.late(f)
	if of := lateOf[f.N]; of != "" && f.Pod%2 == 0 {
		of, changed, process := strings.TrimSpace(of), make(chan struct{}), w.processOf(f)
		w.locked(func() {
			w.behind[of] = append(w.behind[of], changed)
			if process == "manager" {
				w.lateUntil[of] = max(w.lateUntil[of], w.since()+2*f.For)
			}
		})
		select {
		case <-changed:
		case <-time.After(f.For):
		case <-w.ctx.Done():
			return
		}
		rested(w.ctx, time.Second)
	}
	for _, s := range streams {
		w.hold(s.Name()+" event", f.For)
	}
}

// lagged are the resources of which the manager's watches are late now and then, and longestLag is for how long at most.
var lagged = []string{"ippools", "ipallocations", "nodes"}

const longestLag = 4 * time.Minute

// lagLocked has the manager's watches of a resource be late behind a change of an object, now and then. Each change has a draw of its own, since the
// order of two changes at one instant is the runtime's.
func (w *World) lagLocked(resource, object string) {
	if w.since() > faultsUntil || !slices.Contains(lagged, resource) {
		return
	}
	draw := w.rand(fmt.Sprintf("lag of %s %s at %d", resource, object, w.since()))
	if draw.IntN(w.plan.Lags) > 0 {
		return
	}
	d := time.Duration(float64(time.Second) * math.Pow(longestLag.Seconds(), draw.Float64()))
	w.lateUntil[resource] = max(w.lateUntil[resource], w.since()+d)
	w.act(func() {
		if !rested(w.ctx, 50*time.Millisecond) {
			return
		}
		for _, s := range w.server.Streams() {
			if name := s.Name() + " event"; strings.HasPrefix(name, "manager") && strings.Contains(name, " "+resource) && !w.isHeld(name) {
				w.hold(name, d)
			}
		}
	})
}

// mergeWatches delays them, and then has them begin again with a list: of all that happened meanwhile, the client sees what was last.
func (w *World) mergeWatches(f Fault) {
	streams := w.late(f)
	w.delayWatches(f)
	w.after(f.For, func() {
		for _, s := range streams {
			if w.turn(w.ctx, "%s: %s", f.Kind, s.Name()) {
				s.Expire()
			}
		}
	})
}

// lateOf is the resource of which the watches are late, by N; of all for other N.
var lateOf = map[int]string{3: pools, 4: pools, 5: " pods", 6: " ipallocations"}

const pools = " ippools"

// late are the watches that a fault delays.
func (w *World) late(f Fault) []*apiserver.Stream {
	of := lateOf[f.N]
	return slices.DeleteFunc(w.server.Streams(), func(s *apiserver.Stream) bool {
		return !strings.HasPrefix(s.Name(), w.processOf(f)) || !strings.Contains(s.Name(), of)
	})
}

// cutWatches ends all watches of a process, one after the other.
func (w *World) cutWatches(f Fault) {
	for _, s := range w.server.Streams() {
		if !strings.HasPrefix(s.Name(), w.processOf(f)) || !w.turn(w.ctx, "%s: %s", f.Kind, s.Name()) {
			continue
		}
		if f.Kind == WatchCut {
			s.Cut()
		} else {
			s.Expire()
		}
	}
}

// breakRuntime makes a machine's runtime fail for a while, in the way of the kind.
func (w *World) breakRuntime(f Fault) {
	m := w.at(f)
	if f.Kind == SandboxSlow || f.Kind == StopFails {
		m = w.near(f)
	}
	w.locked(func() { m.broken[f.Kind]++ })
	w.after(f.For, func() { w.locked(func() { m.broken[f.Kind]-- }) })
}

// target is the pod that a fault affects; nil if there is none.
func (w *World) target(f Fault) *corev1.Pod { return w.pod(namespace, podName(f.Pod), "") }

// excuse exempts the sandboxes of a pod from the checks.
func (w *World) excuse(pod *corev1.Pod, why string) {
	w.locked(func() {
		w.excused[pod.UID] = why
		for _, m := range w.machines {
			for _, b := range m.boxes {
				if b.uid == pod.UID {
					b.excuse = why
				}
			}
		}
	})
}

// What keeps a manager, or an agent, from doing its work in time.
var (
	managerKinds = []Kind{CrashAfterWrite, StaleRestart, TwoLeaders, ClockJump, WatchDelayed, WatchCut, WatchExpired, WatchMerged, Conflict, Invalid, Throttled, InternalError,
		ResponseLost, Refused}
	agentKinds = []Kind{AgentClockSkew, WatchDelayed, WatchCut, WatchExpired, WatchMerged, WatchMerged, Conflict, Invalid, Throttled, InternalError, ResponseLost, Refused, AgentRestart, ReportLate,
		ReportLost, ReportDoubled, RuntimeEmpty, RuntimeFails, Partition, Reboot, Replacement, Reregistration, Clone, OutOfService}
)

// restarts are what begins another process of the manager, or another time.
var restarts = []Kind{CrashAfterWrite, StaleRestart, TwoLeaders, ClockJump}

// ofAgents are the kinds that only affect agents.
var ofAgents = []Kind{AgentClockSkew, AgentRestart, ReportLate, ReportLost, ReportDoubled, RuntimeEmpty, RuntimeFails, SandboxNotLoaded}

// felt is how long a fault has effects after its end.
const felt = 3 * time.Minute

// isDisturbed says whether another fault of these kinds, on a node unless it is empty, has effects during this one.
func (w *World) isDisturbed(f Fault, kinds []Kind, node string, matters time.Duration) bool {
	return slices.ContainsFunc(w.plan.Faults, func(o Fault) bool {
		return o != f && slices.Contains(kinds, o.Kind) && (node == "" || isOnNode(o, node)) && o.At-felt < f.At+matters && f.At < o.At+o.For+felt
	})
}

// isOnNode: faults of calls and watches affect those of the manager, unless a node is named.
func isOnNode(f Fault, node string) bool {
	return nodeOf(f) == node && (f.Who != "manager" || !slices.Contains(managerKinds, f.Kind))
}
