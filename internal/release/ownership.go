// SPDX-License-Identifier: Apache-2.0

package release

import (
	"encoding/json"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// ownership says which of these fields an entry of managedFields owns: status.phase, the sandbox's condition, spec.nodeName and, for a shared field
// manager, the reason of ContainersReady.
type ownership struct{ phase, sandbox, node, ready bool }

const (
	sandboxCondition = `k:{"type":"` + string(corev1.PodReadyToStartContainers) + `"}`

	readyCondition = `k:{"type":"` + string(corev1.ContainersReady) + `"}`

	ownsPhase = `"f:phase":{}`
	ownsNode  = `"f:spec":{"f:nodeName":{}}`
)

var (
	ownsSandbox = strconv.Quote(sandboxCondition) + `:{}`
	ownsReady   = strconv.Quote(readyCondition) + `:{"f:reason":{}}`
)

// owned reads an entry. An unreadable entry counts as the owner of all fields, so that no field of another client looks like the kubelet's, and no
// node name like a scheduler's.
func owned(entry *metav1.ManagedFieldsEntry) ownership {
	if entry.FieldsV1 == nil {
		return ownership{}
	}
	var fields struct {
		Spec   map[string]json.RawMessage `json:"f:spec"`
		Status map[string]json.RawMessage `json:"f:status"`
	}
	foreign := ownership{phase: !IsKubelet(entry), sandbox: !IsKubelet(entry), node: true}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
		return foreign
	}
	var owns ownership
	_, owns.node = fields.Spec["f:nodeName"]
	_, owns.phase = fields.Status["f:phase"]
	if raw, ok := fields.Status["f:conditions"]; ok {
		var conditions map[string]json.RawMessage
		if err := json.Unmarshal(raw, &conditions); err != nil {
			return foreign
		}
		_, owns.sandbox = conditions[sandboxCondition]
		owns.ready = isShared(entry) && ownsReason(conditions[readyCondition])
	}
	return owns
}

// ownsReason reads whether an entry owns the reason of a condition.
func ownsReason(condition json.RawMessage) bool {
	var fields map[string]json.RawMessage
	if len(condition) == 0 || json.Unmarshal(condition, &fields) != nil {
		return false
	}
	_, owns := fields["f:reason"]
	return owns
}

// FieldOwnership reduces managed fields to those of an ownership, which PodEnding, PodTornDown and Bound need and caches should hold.
func FieldOwnership(fields []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var kept []metav1.ManagedFieldsEntry
	for i := range fields {
		owns := keptFields[owned(&fields[i])]
		if owns == nil {
			continue
		}
		entry := fields[i]
		entry.FieldsV1 = owns
		kept = append(kept, entry)
	}
	return kept
}

// keptFields are the fields that FieldOwnership writes. All pods share them: they are only read.
var keptFields = func() map[ownership]*metav1.FieldsV1 {
	kept := map[ownership]*metav1.FieldsV1{}
	bits := []bool{false, true}
	for _, phase := range bits {
		for _, sandbox := range bits {
			for _, node := range bits {
				for _, ready := range bits {
					o := ownership{phase: phase, sandbox: sandbox, node: node, ready: ready}
					if o != (ownership{}) {
						kept[o] = metav1.NewFieldsV1(o.text())
					}
				}
			}
		}
	}
	return kept
}()

func (o ownership) text() string {
	var conditions, status, all []string
	if o.phase {
		status = append(status, ownsPhase)
	}
	if o.sandbox {
		conditions = append(conditions, ownsSandbox)
	}
	if o.ready {
		conditions = append(conditions, ownsReady)
	}
	if len(conditions) > 0 {
		status = append(status, `"f:conditions":{`+strings.Join(conditions, ",")+`}`)
	}
	if len(status) > 0 {
		all = append(all, `"f:status":{`+strings.Join(status, ",")+`}`)
	}
	if o.node {
		all = append(all, ownsNode)
	}
	return `{` + strings.Join(all, ",") + `}`
}
