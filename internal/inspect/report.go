// SPDX-License-Identifier: Apache-2.0

// Package inspect has what the commands of kubectl holdfast share: the form of their reports, and how a terminal shows them.
//
// Each command has a package below this one, which is pure: facts that were read → report. The package collect reads the facts live.
// A report is a structure with JSON names, so that scripts and people read the same findings; its method Tables is the view of a
// terminal. Only the package auditlog writes.
package inspect

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/release"
)

// APIVersion is that of every report. Reports are no API objects: no API server serves them.
const APIVersion = "inspect.holdfast.dev/v1alpha1"

// Type makes the type of a report.
func Type(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: APIVersion, Kind: kind} }

// Report is what a command found.
type Report interface {
	// Tables are the view of a terminal; ages count up to now.
	Tables(now time.Time) []Table
	// Attention says whether a person should look into it: the command then ends with exit code 2.
	Attention() bool
}

// Event is a Kubernetes event of Holdfast.
type Event struct {
	// First and Last are when it was seen first and last; Count how often, at least once.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Count int32     `json:"count,omitempty"`
	// Type is Normal or Warning.
	Type   string `json:"type"`
	Reason string `json:"reason"`
	Note   string `json:"note"`
	// Kind, Namespace, Name and UID are those of the object that it is about.
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
	Reporter  string    `json:"reporter,omitempty"`
}

// About names the object of an event: "Pod apps/web-0".
func (e *Event) About() string {
	if e.Namespace == "" || e.Kind == "Node" || e.Kind == "IPAllocation" {
		return e.Kind + " " + e.Name
	}
	return e.Kind + " " + e.Namespace + "/" + e.Name
}

// At is a time for a report; nil for none.
func At(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}

// ClaimNote describes the ResourceClaim that owns an address.
func ClaimNote(address string, uid types.UID, claims release.Fact[map[types.UID]string]) string {
	name, exists := claims.Get()[uid]
	switch {
	case !claims.IsKnown():
		return fmt.Sprintf("%s belongs to the ResourceClaim of UID %s, and whether that exists is unknown (%s): it is held.", address, uid, claims.Why())
	case exists:
		return fmt.Sprintf("%s belongs to ResourceClaim %s (UID %s): nothing to do, its driver releases it.", address, name, uid)
	}
	return fmt.Sprintf("%s belonged to the ResourceClaim of UID %s, which does not exist any more: its driver has not released it; do so by hand: kubectl holdfast release %s.", address, uid, address)
}
