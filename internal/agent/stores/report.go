// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/nodestore"
)

// reclaimTime bounds the reclaiming of a pass: while another process holds the lock of a store, each address takes seconds, and lists of one
// sequence are at most handshake.MaxGap apart.
const reclaimTime = 30 * time.Second

// kinds are the kinds of findings.
var kinds = []v1alpha1.Reason{v1alpha1.ReasonAddressLeaked, v1alpha1.ReasonAddressOfStoppedSandbox, v1alpha1.ReasonAddressDuplicated,
	v1alpha1.ReasonAddressInTwoNetworks, v1alpha1.ReasonStoreUnreadable, v1alpha1.ReasonStoreBroken, v1alpha1.ReasonStoreVersionUnknown}

// measure sets the gauges, also to zero.
func (a *Auditor) measure(report nodestore.Report) {
	counts := map[nodestore.Backend]map[v1alpha1.Reason]int{}
	for _, backend := range a.options.Backends {
		counts[backend] = map[v1alpha1.Reason]int{}
	}
	for i := range report.Standing {
		f := &report.Standing[i]
		if counts[f.Store.Backend] != nil {
			counts[f.Store.Backend][f.Kind]++
		}
	}
	for backend, found := range counts {
		metrics.NodeStoreEntries.WithLabelValues(string(backend)).Set(float64(report.Entries[backend]))
		for _, kind := range kinds {
			metrics.NodeStoreFindings.WithLabelValues(string(backend), string(kind)).Set(float64(found[kind]))
		}
	}
}

// report reports findings that began, by log line and event, and that are over, by log line.
func (a *Auditor) report(report nodestore.Report) {
	for i := range report.Begun {
		f := &report.Begun[i]
		if f.HasEvent() {
			a.log.Info("Store of this node", "reason", f.Kind, "found", f.Message)
			a.events.announce(newAnnouncement(corev1.EventTypeWarning, f.Kind, f.Message, identityOf(f)))
		}
	}
	for i := range report.Over {
		f := &report.Over[i]
		a.failed.Delete(f.Entry)
		if f.HasEvent() {
			a.log.Info("Store of this node, over", "reason", f.Kind, "found", f.Message)
			a.events.withdraw(newAnnouncement(corev1.EventTypeWarning, f.Kind, f.Message, identityOf(f)))
		}
	}
}

// reclaim removes the entries that the list of this pass proves to be leaked, where reclaiming is configured.
func (a *Auditor) reclaim(ctx context.Context, gone []nodestore.Entry) {
	last := a.clock.Now().Add(reclaimTime)
	// Entries that failed before come last, so that they do not use up the time of the others.
	gone = slices.Concat(slices.DeleteFunc(slices.Clone(gone), a.failed.Has), slices.DeleteFunc(slices.Clone(gone), func(e nodestore.Entry) bool { return !a.failed.Has(e) }))
	for _, e := range gone {
		reclaimer := a.options.Reclaimers[e.Store.Source]
		if reclaimer == nil || ctx.Err() != nil || a.clock.Now().After(last) {
			continue
		}
		reason, err := reclaimer.Reclaim(ctx, e)
		if err != nil {
			reason = v1alpha1.ReasonReclaimFailed
		}
		metrics.NodeStoreReclaims.WithLabelValues(string(reason)).Inc()
		a.reportReclaim(e, reason, err)
	}
}

func (a *Auditor) reportReclaim(e nodestore.Entry, reason v1alpha1.Reason, err error) {
	log := a.log.WithValues("reason", reason, "ip", e.IP, "sandboxID", e.SandboxID, "interface", e.Interface, "store", e.Store.String())
	identity := identity{string(e.Store.Backend), e.Store.Source, e.Store.Name, e.IP.String(), e.SandboxID, e.Interface}
	switch reason {
	case v1alpha1.ReasonAddressReclaimed:
		log.Info("Reclaimed a leaked address")
		a.events.announce(newAnnouncement(corev1.EventTypeNormal, reason,
			e.Store.String()+" gave back "+e.IP.String()+", which it had for sandbox "+e.SandboxID+": the sandbox is gone", identity))
	case v1alpha1.ReasonReclaimFailed:
		if a.failed.Has(e) {
			return
		}
		a.failed.Insert(e)
		log.Error(err, "Reclaiming a leaked address; trying again")
		a.events.announce(newAnnouncement(corev1.EventTypeWarning, reason, err.Error()+"; trying again", identity))
	default:
		log.Info("Kept a leaked address: its entry changed")
	}
}

// identity distinguishes findings.
type identity []string

func identityOf(f *nodestore.Finding) identity {
	id := identity{string(f.Store.Backend), f.Store.Source, f.Store.Name, f.Path}
	if f.Path != "" {
		return append(id, f.Message)
	}
	return append(id, f.Entry.IP.String(), f.Entry.SandboxID, f.Entry.Interface, f.Entry.Network)
}
