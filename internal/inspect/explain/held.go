// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

// held is one entry that belongs to the UID.
type held struct {
	ipam.Entry
	attribution v1alpha1.Attribution
	// rivals are the records of other UIDs that hold the address for another sandbox.
	rivals []string
	// conflict: the address stands under another UID too.
	conflict bool
	// superseded: the pool holds the address for another sandbox by now.
	superseded bool
	// followed: superseded, by a later sandbox of the same UID.
	followed bool
}

// heldEntries are the entries that are the UID's by evidence, and the recorded addresses that somebody else has by now.
func (f *Facts) heldEntries() []held {
	entries := f.Entries.Get().Entries
	candidates := f.candidates()
	var all []held
	for i := range entries {
		if attribution, ours := f.attribute(&entries[i], candidates); ours {
			h := held{Entry: entries[i], attribution: attribution}
			if entries[i].Releasing != "" {
				h.PodRef = f.recordedPodRef(&entries[i])
			}
			h.rivals = f.rivals(h.Key)
			h.conflict = len(h.rivals) > 0 || f.namesakeShows(h.Key)
			all = append(all, h)
		}
	}
	if f.Record == nil {
		return all
	}
	for i := range f.Record.Spec.Addresses {
		if h, missing := f.missing(&f.Record.Spec.Addresses[i], all, entries); missing {
			all = append(all, h)
		}
	}
	return all
}

// attribute says whether an entry is this UID's, and by what evidence.
func (f *Facts) attribute(entry *ipam.Entry, candidates []ownership.Candidate) (v1alpha1.Attribution, bool) {
	recorded := attributionOf(f.Record, entry.SandboxID)
	switch {
	case entry.Releasing != "":
		return recorded, entry.Releasing == string(f.UID)
	case entry.Owner == nil:
		return recorded, recorded != v1alpha1.AttributionNone
	case *entry.Owner != f.Ref || f.recordedElsewhere(entry.SandboxID):
		return v1alpha1.AttributionNone, false
	}
	owner := ownership.Of(ownership.Entry{IP: entry.IP, Interface: entry.Interface, SandboxID: entry.SandboxID}, candidates)
	return owner.Attribution, owner.UID == f.UID
}

// recordedElsewhere says whether the record of a pod with another name has a sandbox. An entry's ID can be changed unjudged; the sandbox
// stays that pod's.
func (f *Facts) recordedElsewhere(sandbox string) bool {
	return slices.ContainsFunc(f.Records.Get(), func(r v1alpha1.IPAllocation) bool {
		named := r.Spec.PodNamespace == f.Ref.Namespace && r.Spec.PodName == f.Ref.Name
		return !named && !strings.HasPrefix(r.Name, v1alpha1.OrphanPrefix) &&
			slices.ContainsFunc(r.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return s.ID == sandbox })
	})
}

// candidates are the UIDs of this pod name that an entry might belong to. Nobody has watched, so no ADD was observed.
func (f *Facts) candidates() []ownership.Candidate {
	all := []ownership.Candidate{candidate(f.UID, f.pod(), f.Record)}
	records := f.Records.Get()
	namesake := f.Namesake
	for i := range records {
		r := &records[i]
		if strings.HasPrefix(r.Name, v1alpha1.OrphanPrefix) || r.Spec.PodNamespace != f.Ref.Namespace || r.Spec.PodName != f.Ref.Name {
			continue
		}
		var pod *corev1.Pod
		if namesake != nil && string(namesake.UID) == r.Name {
			pod, namesake = namesake, nil
		}
		all = append(all, candidate(types.UID(r.Name), pod, r))
	}
	if namesake != nil {
		all = append(all, candidate(namesake.UID, namesake, nil))
	}
	return all
}

func candidate(uid types.UID, pod *corev1.Pod, record *v1alpha1.IPAllocation) ownership.Candidate {
	c := ownership.Candidate{UID: uid}
	if pod != nil {
		c.Shown = shown(pod)
		c.ShownAlive = c.Shown // only the manager has watched what it showed before its end
		c.Ending = pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	}
	if record != nil {
		c.Sandboxes, c.Addresses = map[string]v1alpha1.Attribution{}, ownership.AddressesOf(record)
		for i := range record.Spec.Sandboxes {
			c.Sandboxes[record.Spec.Sandboxes[i].ID] = record.Spec.Sandboxes[i].Attribution
		}
	}
	return c
}

// shown are the addresses in a pod's network-status. A malformed one shows nothing: that can only leave an owner unknown.
func shown(pod *corev1.Pod) []ownership.Shown {
	addresses, err := podnetwork.StatusAddresses(pod.Annotations)
	if err != nil {
		return nil
	}
	all := make([]ownership.Shown, 0, len(addresses))
	for i := range addresses {
		all = append(all, ownership.Shown{IP: addresses[i].IP, Interface: addresses[i].Interface, Default: addresses[i].Default})
	}
	return all
}

func (f *Facts) namesakeShows(key ipam.Key) bool {
	return f.Namesake != nil && ownership.ShownBy(shown(f.Namesake), ownership.Entry{IP: key.IP, Interface: key.Interface})
}

// missing is a recorded address that the pools do not show for this UID any more, while somebody else has it.
func (f *Facts) missing(address *v1alpha1.AddressRecord, all []held, entries []ipam.Entry) (held, bool) {
	ip, err := netip.ParseAddr(address.IP)
	if err != nil {
		return held{}, false
	}
	key := ipam.Key{Backend: address.Backend, Pool: address.Pool, IP: ip, SandboxID: address.SandboxID, PodRef: address.PodRef, Interface: address.Interface}
	at := func(e ipam.Entry) bool { return e.Backend == key.Backend && e.Pool == key.Pool && e.IP == key.IP }
	h := held{Entry: ipam.Entry{Key: key}, attribution: attributionOf(f.Record, key.SandboxID), rivals: f.rivals(key)}
	if i := slices.IndexFunc(all, func(h held) bool { return at(h.Entry) && !h.superseded }); i >= 0 {
		h.superseded, h.followed = true, true
		return h, all[i].SandboxID != key.SandboxID
	}
	if i := slices.IndexFunc(entries, at); i >= 0 {
		if entries[i].SandboxID == key.SandboxID {
			h.Entry, h.conflict = entries[i], true
			return h, true
		}
		h.superseded = true
	}
	h.superseded = h.superseded || len(h.rivals) > 0
	return h, h.superseded
}

// rivals are the other records that hold an address for another sandbox.
func (f *Facts) rivals(key ipam.Key) []string {
	var others []string
	for _, record := range f.Records.Get() {
		for i := range record.Spec.Addresses {
			a := &record.Spec.Addresses[i]
			if record.Name != string(f.UID) && a.Backend == key.Backend && a.Pool == key.Pool && a.IP == key.IP.String() && a.SandboxID != key.SandboxID {
				others = append(others, record.Name)
			}
		}
	}
	return others
}

func attributionOf(record *v1alpha1.IPAllocation, sandbox string) v1alpha1.Attribution {
	if record != nil {
		for i := range record.Spec.Sandboxes {
			if record.Spec.Sandboxes[i].ID == sandbox {
				return record.Spec.Sandboxes[i].Attribution
			}
		}
	}
	return v1alpha1.AttributionNone
}

// attributed is the best evidence for a held entry: what was only an observed ADD is more once the agent of the node that ran the
// sandbox has seen it with this UID (controllers/marks.go).
func (f *Facts) attributed(h *held) v1alpha1.Attribution {
	machine := f.machine(h.SandboxID)
	watched := h.attribution == v1alpha1.AttributionObservedAdd || h.attribution == v1alpha1.AttributionUnconfirmed
	if !watched || !machine.IsKnown() {
		return h.attribution
	}
	if slices.ContainsFunc(f.Record.Status.Answers, func(a v1alpha1.Answer) bool {
		return a.SandboxID == h.SandboxID && a.PodUID == f.UID && a.NodeUID == machine.Get().NodeUID
	}) {
		return v1alpha1.AttributionAgentSeen
	}
	return h.attribution
}

// recordedAddress is what the record has of an entry for its very sandbox.
func (f *Facts) recordedAddress(key *ipam.Key) *v1alpha1.AddressRecord {
	if f.Record == nil {
		return nil
	}
	for i := range f.Record.Spec.Addresses {
		a := &f.Record.Spec.Addresses[i]
		if a.Backend == key.Backend && a.Pool == key.Pool && a.IP == key.IP.String() && a.SandboxID == key.SandboxID {
			return a
		}
	}
	return nil
}

func (f *Facts) recordedPodRef(entry *ipam.Entry) string {
	if a := f.recordedAddress(&entry.Key); a != nil {
		return a.PodRef
	}
	return entry.PodRef
}

func (f *Facts) unchangedSince(key *ipam.Key) time.Time {
	if a := f.recordedAddress(key); a != nil {
		return a.ObservedTime.Time
	}
	return time.Time{}
}
