// SPDX-License-Identifier: Apache-2.0

// Package list shows the records of Holdfast in one line each, with what each waits for.
package list

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// Records are those that were asked for.
type Records struct {
	metav1.TypeMeta `json:",inline"`
	Items           []Item `json:"items"`
	Held            bool   `json:"-"`
}

// Item is one record.
type Item struct {
	Record string                   `json:"record"`
	Pod    string                   `json:"pod"`
	Node   string                   `json:"node,omitempty"`
	IPs    []string                 `json:"ips"`
	State  v1alpha1.AllocationState `json:"state"`
	// Reason, Message and Since are those of the condition; absent while the pod uses the addresses. Since is that of the record while an orphan's wait is
	// not explained.
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
}

// List shows records, those of one namespace if it is not empty; with held only those whose addresses wait for a release, the longest first.
func List(records []v1alpha1.IPAllocation, namespace string, held bool) *Records {
	listed := &Records{TypeMeta: inspect.Type("RecordList"), Items: []Item{}, Held: held}
	for i := range records {
		r := &records[i]
		state := r.RecordState()
		if (namespace != "" && r.Spec.PodNamespace != namespace) || (held && state.IsInUse()) {
			continue
		}
		item := Item{Record: r.Name, Pod: r.Spec.PodNamespace + "/" + r.Spec.PodName, Node: r.Spec.NodeName, IPs: r.Spec.IPs, State: state}
		switch c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ReleasedCondition); {
		case state.IsInUse():
		case c != nil:
			item.Reason, item.Message, item.Since = c.Reason, c.Message, c.LastTransitionTime.DeepCopy()
		case state == v1alpha1.StateOrphaned: // its wait is not explained yet
			item.Since = r.CreationTimestamp.DeepCopy()
		}
		listed.Items = append(listed.Items, item)
	}
	slices.SortStableFunc(listed.Items, func(x, y Item) int {
		since := 0
		if held {
			since = cmp.Or(x.Since, &metav1.Time{}).Compare(cmp.Or(y.Since, &metav1.Time{}).Time)
		}
		return cmp.Or(since, strings.Compare(x.Pod, y.Pod), strings.Compare(x.Record, y.Record))
	})
	return listed
}

// Attention is true where held records were asked for and found.
func (r *Records) Attention() bool { return r.Held && len(r.Items) > 0 }

// Tables show the records. The name of an orphan ends with a sandbox ID, of which the beginning is enough for every command.
func (r *Records) Tables(now time.Time) []inspect.Table {
	none := "There are no records."
	if r.Held {
		none = "No record is held."
	}
	return []inspect.Table{inspect.TableOf("", "RECORD,POD,NODE,IPS,STATE,REASON,FOR,+MESSAGE", none, r.Items, func(i *Item) []string {
		name := i.Record
		if sandbox, orphan := strings.CutPrefix(name, v1alpha1.OrphanPrefix); orphan {
			name = v1alpha1.OrphanPrefix + inspect.Short(sandbox)
		}
		return []string{name, i.Pod, i.Node, strings.Join(i.IPs, ","), string(i.State), i.Reason, inspect.Age(i.Since, now), i.Message}
	})}
}
