// SPDX-License-Identifier: Apache-2.0

// Package owner finds the possible owners of an entry: the pod UIDs that the cache shows, which internal/ownership and internal/facts judge.
package owner

import (
	"context"
	"fmt"

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

// Candidates are facts.Candidates by the cache.
func (c Cache) Candidates(ctx context.Context, ref ipam.PodRef, of ownership.Candidate, sameName *corev1.Pod) ([]ownership.Candidate, error) {
	records, err := index.Records(ctx, c.Reader, index.RecordPod, ref.String())
	if err != nil {
		return nil, fmt.Errorf("looking up the records of %s: %w", ref, err)
	}
	return facts.Candidates(records, ref, of, sameName, c.Candidate), nil
}

// Elsewhere are facts.Elsewhere by the cache.
func (c Cache) Elsewhere(ctx context.Context, ref ipam.PodRef, entry *ipam.Entry) ([]ownership.Candidate, error) {
	records, err := index.Records(ctx, c.Reader, index.RecordSandbox, entry.SandboxID)
	if err != nil {
		return nil, fmt.Errorf("looking up the records of sandbox %s: %w", entry.SandboxID, err)
	}
	return facts.Elsewhere(records, ref, entry.SandboxID, c.Candidate), nil
}

// Candidate is what is known of one UID: by its pod and its record, each nil if there is none, and by what this process saw.
func (c Cache) Candidate(uid types.UID, pod *corev1.Pod, record *v1alpha1.IPAllocation) ownership.Candidate {
	candidate := facts.Candidate(uid, pod, record)
	candidate.BoundSeen, candidate.ShownAlive = c.Witness.BoundSeen(uid), c.Witness.ShownAlive(uid)
	return candidate
}

// Rivals are facts.Rivals by the cache.
func (c Cache) Rivals(ctx context.Context, record string, key ipam.Key) ([]string, error) {
	records, err := index.Records(ctx, c.Reader, index.RecordAddress, index.AddressKey(key.Backend, key.Pool, key.IP.String()))
	if err != nil {
		return nil, fmt.Errorf("looking up the records that hold %s: %w", key.IP, err)
	}
	return facts.Rivals(records, record, key), nil
}
