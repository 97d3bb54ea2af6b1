// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/releaseguard"
)

const (
	// casesAtOnce is how many removals are looked up before they are judged: the first refusal among them decides, and
	// the deletion of a full pool need not be read to its end.
	casesAtOnce = 32
	// readsAtOnce bounds the load that one request puts on the API server.
	readsAtOnce = 16
)

// poolRemovals is the registration of IPPoolReleaseValidator.
var poolRemovals = whereaboutsRegistration("IPPool", "ippools", admissionv1.Update, admissionv1.Delete)

// IPPoolReleaseValidator judges writes of whereabouts' IPPools after which an entry is missing or has another podref. The
// matchConditions of its registration keep all other writes away, because whereabouts completes a refused ADD with an
// address that no pool has recorded.
type IPPoolReleaseValidator struct{ *releaseGuard }

// Handle responds 403 and not 422 to an unsafe removal: whereabouts would repeat a write that is Invalid a hundred times.
func (v *IPPoolReleaseValidator) Handle(ctx context.Context, req admission.Request) admission.Response {
	return v.respond(ctx, &req, poolRemovals, v.judge)
}

func (v *IPPoolReleaseValidator) judge(ctx context.Context, req *admission.Request) []finding {
	before, removals, adds, err := v.poolChanges(req)
	if err != nil {
		return undecidable(req, err)
	}
	writer := v.writer(ctx, &req.UserInfo)
	write := &releaseguard.Write{
		Backend: v.options.Backend.Name(), Pool: before.Name, Writer: writer, ReconcilerShared: v.reconcilerShared(writer),
		Agents: v.options.Evidence == release.EvidenceAgent, Adds: adds, Nodes: map[string]release.Fact[release.Node]{},
	}
	var findings []finding
	for batch := range slices.Chunk(removals, casesAtOnce) {
		write.Cases = make([]releaseguard.Case, len(batch))
		for i := range batch {
			write.Cases[i] = releaseguard.Case{Removal: batch[i], Address: addressOf(before, batch[i].Offset)}
		}
		found := v.judgeBatch(ctx, write)
		findings = append(findings, found...)
		if slices.ContainsFunc(found, finding.isRefusal) {
			break
		}
	}
	return findings
}

// judgeBatch reads what the cases need and judges them.
func (v *IPPoolReleaseValidator) judgeBatch(ctx context.Context, write *releaseguard.Write) []finding {
	var abouts []runtime.Object
	sideBySide(
		func() { v.readNodes(ctx, write, write.LikelyNodeNames()) },
		func() { abouts = v.readCases(ctx, write); v.readClaims(ctx, write) },
	)
	write.ForgetNodes()
	v.readNodes(ctx, write, write.NodeNames())
	v.readFirst(write)
	findings := make([]finding, 0, len(write.Cases))
	for i, judgment := range releaseguard.Judge(write) {
		findings = append(findings, finding{Judgment: judgment, about: abouts[i]})
	}
	return findings
}

// readFirst sets First of each case: whether this replica saw the entry. A record that is not written yet, or by a leader that is late, does not hold up a DEL.
func (v *IPPoolReleaseValidator) readFirst(write *releaseguard.Write) {
	if !write.Agents {
		return
	}
	var query ipam.Query
	for i := range write.Cases {
		query.SandboxIDs = append(query.SandboxIDs, write.Cases[i].SandboxID)
	}
	entries := v.options.Backend.Find(query).Entries
	for i := range write.Cases {
		c := &write.Cases[i]
		c.First = slices.ContainsFunc(entries, func(e ipam.Entry) bool {
			return e.Pool == write.Pool && e.SandboxID == c.SandboxID && c.Address.IsKnown() && e.IP == c.Address.Get() && e.Whole && e.Follows == ""
		})
	}
}

// poolChanges compares the pool before and after, and returns the former with at least the entries that were removed. If every entry is removed, none is added.
func (v *IPPoolReleaseValidator) poolChanges(req *admission.Request) (before *ipam.AdmittedPool, removals []releaseguard.Removal, adds bool, err error) {
	var after map[string]releaseguard.Entry
	if deletes(req) {
		before, err = v.options.Backend.DecodePool(req.OldObject.Raw)
	} else {
		var pool *ipam.AdmittedPool
		before, pool, err = v.options.Backend.DecodePools(req.OldObject.Raw, req.Object.Raw)
		if err == nil && !movesEveryEntry(before, pool) {
			after = entriesOf(pool)
		}
	}
	if err != nil {
		return nil, nil, false, err
	}
	removals, adds = releaseguard.Diff(entriesOf(before), after)
	return before, removals, adds, nil
}

// movesEveryEntry reports whether the pool has another range afterwards, so that every offset stands for another address.
// whereabouts never does that. Where the old range was unreadable there is nothing to move.
func movesEveryEntry(before, after *ipam.AdmittedPool) bool {
	return before.RangeErr == nil && (after.RangeErr != nil || after.Range != before.Range)
}

func entriesOf(pool *ipam.AdmittedPool) map[string]releaseguard.Entry {
	entries := make(map[string]releaseguard.Entry, len(pool.Entries))
	for offset, entry := range pool.Entries {
		entries[offset] = releaseguard.Entry{SandboxID: entry.SandboxID, PodRef: entry.PodRef, Interface: entry.Interface}
	}
	return entries
}

func addressOf(pool *ipam.AdmittedPool, offset string) release.Fact[netip.Addr] {
	switch address := pool.Entries[offset].IP; {
	case pool.RangeErr != nil:
		return release.Unknown[netip.Addr](pool.RangeErr.Error())
	case !address.IsValid():
		return release.Absent[netip.Addr]()
	default:
		return release.Known(address)
	}
}

// readCases reads, for every case, the pod and the records: each reference once, side by side. It returns what an event
// about the case is to be about: the pod, or a record of it, or nil.
func (v *IPPoolReleaseValidator) readCases(ctx context.Context, write *releaseguard.Write) []runtime.Object {
	type key struct{ podRef, sandboxID string }
	read := map[key]*referenceFacts{}
	var reads []func()
	keys := make([]key, len(write.Cases))
	for i := range write.Cases {
		c := &write.Cases[i]
		keys[i] = key{podRef: c.PodRef}
		pod, _, err := ipam.ParseReference(c.PodRef)
		if err != nil {
			keys[i].sandboxID = c.SandboxID
		}
		if read[keys[i]] != nil {
			continue
		}
		facts := &referenceFacts{}
		read[keys[i]] = facts
		facts.withoutPod(c.PodRef, pod, err)
		reads = append(reads, func() {
			if pod != nil {
				facts.pod = readLive[corev1.Pod](ctx, v.reader, client.ObjectKey(*pod))
			}
			facts.records = v.readRecords(ctx, write, keys[i].podRef, keys[i].sandboxID, facts.pod)
		})
	}
	sideBySide(reads...)
	abouts := make([]runtime.Object, len(write.Cases))
	for i := range write.Cases {
		facts := read[keys[i]]
		write.Cases[i].Pod, write.Cases[i].Records = v.podFact(ctx, facts.pod), facts.records
		abouts[i] = facts.about()
	}
	return abouts
}

// readRecords reads the records that can hold an entry: those of the pod's name, which a tombstone's record has too, or, where the reference names
// nothing, the orphan of the sandbox.
func (v *IPPoolReleaseValidator) readRecords(ctx context.Context, write *releaseguard.Write, podRef, sandboxID string, named release.Fact[corev1.Pod]) release.Fact[[]v1alpha1.IPAllocation] {
	pod, record, err := ipam.ParseReference(podRef)
	switch {
	case err != nil:
		return v.recordNamed(ctx, v1alpha1.OrphanPrefix+sandboxID)
	case pod == nil:
		named := v.recordNamed(ctx, record)
		if !named.IsKnown() || named.Get()[0].Spec.PodName == "" {
			return named
		}
		of := named.Get()[0].Spec
		return v.recordsOf(ctx, ipam.PodRef{Namespace: of.PodNamespace, Name: of.PodName}, release.Absent[corev1.Pod](), nil)
	default:
		return v.recordsOf(ctx, *pod, named, func(own *v1alpha1.IPAllocation) bool { return write.HoldsAll(own, podRef) })
	}
}

// readNodes reads those of the named Nodes that were not read before.
func (v *IPPoolReleaseValidator) readNodes(ctx context.Context, write *releaseguard.Write, names []string) {
	names = slices.DeleteFunc(names, func(name string) bool {
		_, read := write.Nodes[name]
		return read
	})
	nodes := make([]release.Fact[release.Node], len(names))
	var reads []func()
	for i, name := range names {
		reads = append(reads, func() { nodes[i] = v.node(ctx, name) })
	}
	sideBySide(reads...)
	for i, name := range names {
		write.Nodes[name] = nodes[i]
	}
}

// referenceFacts are what was read of one reference.
type referenceFacts struct {
	pod     release.Fact[corev1.Pod]
	records release.Fact[[]v1alpha1.IPAllocation]
}

// withoutPod is what is known of the pod of a reference that names none.
func (f *referenceFacts) withoutPod(podRef string, pod *ipam.PodRef, err error) {
	switch {
	case err != nil:
		f.pod = release.Unknown[corev1.Pod](err.Error())
	case pod == nil: // a tombstone: only its record counts
		f.pod = release.Absent[corev1.Pod]()
	}
}

func (f *referenceFacts) about() runtime.Object {
	if f.pod.IsKnown() {
		return new(f.pod.Get())
	}
	if records := f.records.Get(); len(records) > 0 {
		return &records[0]
	}
	return nil
}

// undecidable is the response to a write that cannot be read.
func undecidable(req *admission.Request, err error) []finding {
	return []finding{{Judgment: releaseguard.Judgment{
		Outcome: releaseguard.Refuse, Reason: v1alpha1.ReasonObservationFailed,
		Message: fmt.Sprintf("%s: %s %s/%s could not be judged: %v; expected an object that its CRD allows. Correct it and try again.",
			v1alpha1.ReasonUnsafeReleaseRefused, req.Kind.Kind, req.Namespace, req.Name, err),
	}}}
}
