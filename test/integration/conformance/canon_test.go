// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// canon replaces what every server chooses for itself. UIDs and versions get numbers in the order in which they are first seen, so
// that two responses with the same version show it.
type canon struct {
	namespace string
	seen      map[string]string
	numbers   map[string]int
}

// of returns a JSON object in canonical form, and its name.
func (c *canon) of(raw []byte) (text, name string, err error) {
	var o map[string]any
	if err := json.Unmarshal(raw, &o); err != nil {
		return "", "", err
	}
	if metadata, ok := o["metadata"].(map[string]any); ok {
		name, _ = metadata["name"].(string)
	}
	if o["kind"] == "Status" {
		return c.status(o), name, nil
	}
	if o["items"] != nil {
		c.list(o)
	}
	out, err := json.Marshal(c.value("", o))
	return strings.ReplaceAll(string(out), c.namespace, "NS"), name, err
}

// status keeps the code, the reason and what the details name; messages are for people, and causes in the order of a schema's walk.
func (c *canon) status(o map[string]any) string {
	details, _ := o["details"].(map[string]any)
	var causes []string
	all, _ := details["causes"].([]any)
	for _, cause := range all {
		causes = append(causes, fmt.Sprint(cause.(map[string]any)["field"]))
	}
	text := fmt.Sprintf("%v %v %v name=%v group=%v kind=%v causes=%v", o["status"], o["reason"], o["code"], details["name"], details["group"], details["kind"], causes)
	return strings.ReplaceAll(text, c.namespace, "NS")
}

func (c *canon) list(o map[string]any) {
	metadata := o["metadata"].(map[string]any)
	delete(metadata, "resourceVersion")
	delete(metadata, "remainingItemCount")
	if metadata["continue"] == "" {
		delete(metadata, "continue")
	}
}

// byPlugins are fields that admission plugins set which are no part of the API's machinery.
var byPlugins = map[string]bool{"tolerations": true, "priority": true, "preemptionPolicy": true}

func (c *canon) value(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, k := range slices.Sorted(maps.Keys(v)) { // in one order, by which the numbers are given
			if v[k] == nil || byPlugins[k] {
				continue
			}
			out[k] = c.value(k, v[k])
		}
		if generated, ok := out["generateName"]; ok {
			out["name"] = fmt.Sprint(generated, "<generated>")
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = c.value(key, v[i])
		}
		return out
	case string:
		return c.text(key, v)
	default:
		return v
	}
}

func (c *canon) text(key, v string) string {
	switch key {
	case "uid", "resourceVersion":
		if c.seen[key+v] == "" {
			c.numbers[key]++
			c.seen[key+v] = fmt.Sprintf("%s#%d", key, c.numbers[key])
		}
		return c.seen[key+v]
	case "creationTimestamp", "deletionTimestamp", "time", "lastTransitionTime", "lastProbeTime", "continue":
		return "<" + key + ">"
	}
	return v
}
