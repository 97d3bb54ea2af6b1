// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"encoding/json"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	kjson "sigs.k8s.io/json"
)

// keeperOwners are the other field managers, with the time of their last write: those that own one of these fields of an
// entry, or without the name of an entry all of them.
func keeperOwners(stored *admissionregistrationv1.ValidatingWebhookConfiguration, name string, fields []string) map[string]time.Time {
	owners := map[string]time.Time{}
	for i := range stored.ManagedFields {
		managed := &stored.ManagedFields[i]
		if managed.Manager == KeeperFieldManager || (name != "" && (managed.FieldsV1 == nil || !keeperOwns(managed.FieldsV1.GetRawBytes(), name, fields))) {
			continue
		}
		var at time.Time
		if managed.Time != nil {
			at = managed.Time.Time
		}
		if before, known := owners[managed.Manager]; !known || at.After(before) {
			owners[managed.Manager] = at
		}
	}
	return owners
}

// keeperOwns reads a set of fields in the format of managedFields: the entries of a list by their key, fields with "f:".
func keeperOwns(raw []byte, name string, fields []string) bool {
	var owned struct {
		Webhooks map[string]map[string]json.RawMessage `json:"f:webhooks"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &owned); err != nil {
		return false
	}
	for key, of := range owned.Webhooks {
		var entry struct {
			Name string `json:"name"`
		}
		if len(key) < 2 || json.Unmarshal([]byte(key[2:]), &entry) != nil || entry.Name != name {
			continue
		}
		for _, field := range fields {
			if _, ok := of["f:"+field]; ok {
				return true
			}
		}
	}
	return false
}
