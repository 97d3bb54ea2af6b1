// SPDX-License-Identifier: Apache-2.0

// Package owner finds the possible owners of an entry: the pod UIDs that the cache shows, which internal/ownership and internal/facts judge.
package owner

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/witness"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// Cache is where they are looked for.
type Cache struct {
	// Reader is the manager's cache, with the indexes of controllers/index.
	Reader  client.Reader
	Witness *witness.Pods
}

// Candidates are the UIDs of a pod name that an entry might belong to: the one that is asked for, those of other records, and the pod of another
// UID that has the name now; nil if there is none.
func (c Cache) Candidates(ctx context.Context, ref ipam.PodRef, of ownership.Candidate, sameName *corev1.Pod) ([]ownership.Candidate, error) {
	candidates := []ownership.Candidate{of}
	records, err := index.Records(ctx, c.Reader, index.RecordPod, ref.String())
	if err != nil {
		return nil, fmt.Errorf("looking up the records of %s: %w", ref, err)
	}
	for i := range records {
		uid := types.UID(records[i].Name)
		if uid == of.UID || strings.HasPrefix(records[i].Name, v1alpha1.OrphanPrefix) {
			continue
		}
		if sameName != nil && sameName.UID == uid {
			candidates = append(candidates, c.Candidate(uid, sameName, &records[i]))
			sameName = nil
			continue
		}
		candidates = append(candidates, c.Candidate(uid, nil, &records[i]))
	}
	if sameName != nil {
		candidates = append(candidates, c.Candidate(sameName.UID, sameName, nil))
	}
	return candidates, nil
}

// Elsewhere are the UIDs of other pod names whose records have the sandbox of an entry. whereabouts changes an entry's sandbox ID
// unjudged, so the ID may be that of another pod's sandbox; it stays that pod's.
func (c Cache) Elsewhere(ctx context.Context, ref ipam.PodRef, entry *ipam.Entry) ([]ownership.Candidate, error) {
	records, err := index.Records(ctx, c.Reader, index.RecordSandbox, entry.SandboxID)
	if err != nil {
		return nil, fmt.Errorf("looking up the records of sandbox %s: %w", entry.SandboxID, err)
	}
	var others []ownership.Candidate
	for i := range records {
		r := &records[i]
		named := ipam.PodRef{Namespace: r.Spec.PodNamespace, Name: r.Spec.PodName} == ref
		if !named && !strings.HasPrefix(r.Name, v1alpha1.OrphanPrefix) {
			others = append(others, c.Candidate(types.UID(r.Name), nil, r))
		}
	}
	return others, nil
}

// Candidate is what is known of one UID: by its pod and its record, each nil if there is none, and by what this process saw.
func (c Cache) Candidate(uid types.UID, pod *corev1.Pod, record *v1alpha1.IPAllocation) ownership.Candidate {
	candidate := facts.Candidate(uid, pod, record)
	candidate.BoundSeen, candidate.ShownAlive = c.Witness.BoundSeen(uid), c.Witness.ShownAlive(uid)
	return candidate
}

// Rivals are the other UIDs whose records hold an address for another sandbox.
func (c Cache) Rivals(ctx context.Context, uid types.UID, key ipam.Key) ([]types.UID, error) {
	records, err := index.Records(ctx, c.Reader, index.RecordAddress, index.AddressKey(key.Backend, key.Pool, key.IP.String()))
	if err != nil {
		return nil, fmt.Errorf("looking up the records that hold %s: %w", key.IP, err)
	}
	var others []types.UID
	for i := range records {
		if records[i].Name == string(uid) {
			continue
		}
		if facts.Holds(&records[i], key) {
			others = append(others, types.UID(records[i].Name))
		}
	}
	return others, nil
}
