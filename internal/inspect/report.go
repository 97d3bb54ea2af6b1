// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// APIVersion is that of every report. Reports are no API objects: no API server serves them.
const APIVersion = "inspect.holdfast.dev/v1alpha1"

// Type makes the type of a report.
func Type(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: APIVersion, Kind: kind} }

// Report is what a command found.
type Report interface {
	// Tables are how a terminal shows it, at a moment from which ages are counted.
	Tables(now time.Time) []Table
	// Attention says whether somebody should look into it: the command then ends with exit code 2.
	Attention() bool
}

// Event is a Kubernetes event about something of ours.
type Event struct {
	// First and Last are when it was seen first and last; Count how often, at least once.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Count int32     `json:"count,omitempty"`
	// Type is Normal or Warning.
	Type string `json:"type"`
	// Reason and Note are as recorded.
	Reason string `json:"reason"`
	Note   string `json:"note"`
	// Kind, Namespace, Name and UID are those of the object that it is about.
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
	// Reporter is who said it.
	Reporter string `json:"reporter,omitempty"`
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
