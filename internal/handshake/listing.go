// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func (l *Listing) find(id string) *Sandbox {
	for i := range l.Sandboxes {
		if l.Sandboxes[i].ID == id {
			return &l.Sandboxes[i]
		}
	}
	return nil
}

// of gives the sandboxes of a pod UID.
func (l *Listing) of(uid types.UID) []*Sandbox {
	var found []*Sandbox
	for i := range l.Sandboxes {
		if l.Sandboxes[i].Pod.UID == uid {
			found = append(found, &l.Sandboxes[i])
		}
	}
	return found
}

// gone says whether a listed sandbox counts as gone.
func (l *Listing) gone(s *Sandbox) bool {
	return judgeListed(l, s).Verdict == v1alpha1.VerdictReadyForRelease
}

// living finds the sandboxes of some pod UIDs, except the one with ID other, that are not gone: ready ones first, and then by ID.
func (l *Listing) living(other string, pods []types.UID) []*Sandbox {
	var found []*Sandbox
	for i := range l.Sandboxes {
		if s := &l.Sandboxes[i]; s.ID != other && slices.Contains(pods, s.Pod.UID) && !l.gone(s) {
			found = append(found, s)
		}
	}
	isStopped := func(s *Sandbox) int {
		if s.State == StateNotReady {
			return 1
		}
		return 0
	}
	slices.SortFunc(found, func(a, b *Sandbox) int {
		return cmp.Or(cmp.Compare(isStopped(a), isStopped(b)), cmp.Compare(a.ID, b.ID))
	})
	return found
}

// conflict says why the list does not show which pod a sandbox belongs to; empty if it does.
func conflict(q Query, l *Listing, r Recollection, listed *Sandbox) string {
	if r.Clash {
		return fmt.Sprintf("sandbox %s was listed under more than one pod", q.SandboxID)
	}
	for _, uid := range q.podsWith(r, listed) {
		if clash := l.clash(uid); clash != "" {
			return clash
		}
	}
	return ""
}

// clash finds two ready sandboxes of one pod UID, or one UID under two names.
func (l *Listing) clash(uid types.UID) string {
	var first, ready *Sandbox
	for _, s := range l.of(uid) {
		if first != nil && first.Pod != s.Pod {
			return fmt.Sprintf("pod UID %s is listed as %s/%s with sandbox %s and as %s/%s with sandbox %s",
				uid, first.Pod.Namespace, first.Pod.Name, first.ID, s.Pod.Namespace, s.Pod.Name, s.ID)
		}
		first = s
		if s.State == StateNotReady {
			continue
		}
		if ready != nil {
			return fmt.Sprintf("pod UID %s has two ready sandboxes, %s and %s", uid, ready.ID, s.ID)
		}
		ready = s
	}
	return ""
}
