// SPDX-License-Identifier: Apache-2.0

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
	// Reason and Message are what the record waits for, and Since is since when; absent while its pod uses the addresses.
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
}

// List shows records, those of one namespace if it is not empty; with held only those whose addresses wait for a release, the longest first.
func List(records []v1alpha1.IPAllocation, namespace string, held bool) *Records {
	listed := &Records{TypeMeta: inspect.Type("RecordList"), Items: []Item{}, Held: held}
	for i := range records {
		r := &records[i]
		if (namespace != "" && r.Spec.PodNamespace != namespace) || (held && r.Status.State.IsInUse()) {
			continue
		}
		listed.Items = append(listed.Items, itemOf(r))
	}
	slices.SortStableFunc(listed.Items, func(x, y Item) int {
		if held {
			if order := sinceOf(x).Compare(sinceOf(y)); order != 0 {
				return order
			}
		}
		return cmp.Or(strings.Compare(x.Pod, y.Pod), strings.Compare(x.Record, y.Record))
	})
	return listed
}

func sinceOf(i Item) time.Time {
	if i.Since == nil {
		return time.Time{}
	}
	return i.Since.Time
}

func itemOf(r *v1alpha1.IPAllocation) Item {
	item := Item{Record: r.Name, Pod: r.Spec.PodNamespace + "/" + r.Spec.PodName, Node: r.Spec.NodeName, IPs: r.Spec.IPs, State: cmp.Or(r.Status.State, v1alpha1.StateInUse)}
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ReleasedCondition); c != nil && !item.State.IsInUse() {
		item.Reason, item.Message, item.Since = c.Reason, c.Message, c.LastTransitionTime.DeepCopy()
	}
	return item
}

// Attention is true where records were found that are held, and those were asked for.
func (r *Records) Attention() bool { return r.Held && len(r.Items) > 0 }

// Tables show the records. An orphan's name ends with a sandbox ID, of which the beginning is enough for every command.
func (r *Records) Tables(now time.Time) []inspect.Table {
	t := inspect.Table{Columns: inspect.Columns("RECORD", "POD", "NODE", "IPS", "STATE", "REASON", "FOR", "+MESSAGE"), None: "There are no records."}
	if r.Held {
		t.None = "No record is held."
	}
	for i := range r.Items {
		item := &r.Items[i]
		t.Add(short(item.Record), item.Pod, item.Node, strings.Join(item.IPs, ","), string(item.State), item.Reason, inspect.Age(item.Since, now), item.Message)
	}
	return []inspect.Table{t}
}

func short(record string) string {
	if sandbox, orphan := strings.CutPrefix(record, v1alpha1.OrphanPrefix); orphan {
		return v1alpha1.OrphanPrefix + inspect.Short(sandbox)
	}
	return record
}
