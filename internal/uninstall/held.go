// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/pages"
)

// Held is an entry of an IPAM without a living pod, which Holdfast will not release; or the address of such a pod that a later one has.
type Held struct {
	// Backend, Pool ("namespace/name") and Address say where it is.
	Backend, Pool, Address string
	// PodRef and SandboxID are as recorded.
	PodRef, SandboxID string
	// Why is what is known of the pod.
	Why string
}

// Why an entry is listed.
const (
	whyGone      = "no such pod"
	whyDeleted   = "of an earlier pod with that name"
	whyOrphan    = "its owner is unknown"
	whyReleasing = "its release had begun"
	whyUnread    = "it could not be read"
	whyHandedOn  = "the pool has it for a later pod by now: if this sandbox lives, two use it"
)

// isHandedOn reports that a later pod has the address.
func isHandedOn(h Held) bool { return h.Why == whyHandedOn }

// heldEntries are the entries without a living pod, and the addresses that later pods have. Without a record, an entry counts as the living pod's.
func heldEntries(entries ipam.Snapshot, records []v1alpha1.IPAllocation, living map[string]types.UID) []Held {
	owners := recordedOwners(records)
	var held []Held
	for i := range entries.Entries {
		e := &entries.Entries[i]
		uid, lives := living[e.PodRef]
		why := ""
		switch owner := owners[place{e.Pool, e.IP, e.SandboxID}]; {
		case e.Releasing != "":
			why = whyReleasing
		case strings.HasPrefix(owner, v1alpha1.OrphanPrefix):
			why = whyOrphan
		case !lives:
			why = whyGone
		case owner != "" && owner != string(uid):
			why = whyDeleted
		default:
			continue
		}
		held = append(held, Held{Backend: e.Backend, Pool: e.Pool, Address: e.IP.String(), PodRef: e.PodRef, SandboxID: e.SandboxID, Why: why})
	}
	for _, p := range entries.Problems {
		held = append(held, Held{Backend: p.Backend, Pool: p.Pool, Address: "offset " + p.Offset, PodRef: p.PodRef, SandboxID: p.SandboxID,
			Why: whyUnread + ": " + p.Message})
	}
	return append(held, handedOn(entries.Entries, records, living)...)
}

// handedOn are the recorded addresses of absent pods of which the entry names another sandbox by now: a pod of the same name takes over the entry
// within seconds of the finalizer's removal, and the end of the earlier sandbox was not proven.
func handedOn(entries []ipam.Entry, records []v1alpha1.IPAllocation, living map[string]types.UID) []Held {
	uids := sets.New(slices.Collect(maps.Values(living))...)
	taken, now := sets.New[place](), sets.New[place]() // without and with the sandbox
	for i := range entries {
		e := &entries[i]
		taken.Insert(place{pool: e.Pool, ip: e.IP})
		now.Insert(place{e.Pool, e.IP, e.SandboxID})
	}
	var held []Held
	for i := range records {
		for _, a := range records[i].Spec.Addresses {
			ip, err := netip.ParseAddr(a.IP)
			isAnothers := err == nil && taken.Has(place{pool: a.Pool, ip: ip}) && !now.Has(place{a.Pool, ip, a.SandboxID})
			if isAnothers && !uids.Has(types.UID(records[i].Name)) {
				held = append(held, Held{Backend: a.Backend, Pool: a.Pool, Address: a.IP, PodRef: a.PodRef, SandboxID: a.SandboxID, Why: whyHandedOn})
			}
		}
	}
	return held
}

// place is where an entry of one sandbox is.
type place struct {
	pool      string
	ip        netip.Addr
	sandboxID string
}

// recordedOwners maps each recorded entry to the name of its record: the UID of its pod, or that of an orphan.
func recordedOwners(records []v1alpha1.IPAllocation) map[place]string {
	owners := map[place]string{}
	for i := range records {
		for _, a := range records[i].Spec.Addresses {
			if ip, err := netip.ParseAddr(a.IP); err == nil {
				owners[place{a.Pool, ip, a.SandboxID}] = records[i].Name
			}
		}
	}
	return owners
}

// listHeld lists the entries that stay. It runs before the records are deleted, so that a second run finds them too.
func (u *uninstallation) listHeld(ctx context.Context) error {
	if u.Entries == nil {
		u.print("no IPAM is read")
		return nil
	}
	entries, err := u.Entries(ctx)
	if err != nil {
		return err
	}
	records, err := u.records(ctx)
	if err != nil {
		return err
	}
	u.held = heldEntries(entries, records, u.living)
	if len(u.held) == 0 {
		u.print("every entry belongs to a pod that lives")
		return nil
	}
	u.print("Holdfast releases nothing now, and does not wait for the sandboxes of these any more. Find out whether an address")
	u.print("is still in use before you release it (the CNI DEL of a pod on a node that is alive releases it):")
	text := formatHeld(u.held)
	fmt.Fprint(u.Out, text)
	return u.writeHeldFile(text)
}

func (u *uninstallation) records(ctx context.Context) ([]v1alpha1.IPAllocation, error) {
	var records []v1alpha1.IPAllocation
	for list, err := range pages.Of[v1alpha1.IPAllocationList](ctx, u.Client) {
		if isMissing(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing every IPAllocation: %w", err)
		}
		records = append(records, list.Items...)
	}
	return records, nil
}

func formatHeld(held []Held) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "BACKEND\tPOOL\tADDRESS\tPODREF\tSANDBOX\tWHY")
	for _, h := range held {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", h.Backend, h.Pool, h.Address, h.PodRef, h.SandboxID, h.Why)
	}
	_ = table.Flush() // a strings.Builder returns no error
	return text.String()
}

func (u *uninstallation) writeHeldFile(text string) error {
	if u.HeldFile == "" || u.DryRun {
		return nil
	}
	if err := os.WriteFile(u.HeldFile, []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing the list of entries that stay: %w", err)
	}
	u.print("written to %s", u.HeldFile)
	return nil
}
