// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/lru"
	kjson "sigs.k8s.io/json"
)

// ErrNoConfig is returned for a NetworkAttachmentDefinition with an empty spec.config. It is legal: Multus then looks for a
// CNI configuration of that name on the node, where only the node can read it.
var ErrNoConfig = errors.New("spec.config is empty, so that the configuration is a file on each node, which cannot be seen from here")

// ErrTooLarge is returned for a configuration that exceeds MaxConfigBytes.
var ErrTooLarge = fmt.Errorf("spec.config is larger than %d bytes, and is not read", MaxConfigBytes)

// TooLarge stands in a cache for a configuration or an annotation that exceeds its bound. It is neither JSON nor a name, so that
// every reader takes it for malformed.
const TooLarge = "(too large)"

// indirectPlugins take networks from elsewhere: from their own file on the node, from annotations, from other
// NetworkAttachmentDefinitions. Their configuration does not name the IPAM.
var indirectPlugins = []string{"multus", "multus-shim"}

// IPAMsOf reads, from the spec.config of a NetworkAttachmentDefinition, every IPAM that the network may use: that of a
// single plugin, of each member of a plugins list, of the delegates of plugins that delegate, and of an IPAM that delegates.
// A plugin that names no IPAM is in the result with an empty Type.
//
// Keys are matched without regard to case, as Go's JSON decoder does in the plugins. The error is ErrNoConfig or ErrTooLarge, or it says why
// the configuration cannot be read or does not name one; then nothing is known about the network. The result is shared: it must not change.
func IPAMsOf(config string) ([]IPAM, error) {
	if config == "" {
		return nil, ErrNoConfig
	}
	if len(config) > MaxConfigBytes || config == TooLarge {
		return nil, ErrTooLarge
	}
	if known, ok := parsed.Get(config); ok {
		result := known.(parsedConfig)
		return result.ipams, result.err
	}
	var result parsedConfig
	root, err := decodeObject(config)
	if err == nil {
		result.ipams, err = ipamsOfRoot(root)
	}
	result.err = err
	parsed.Add(config, result)
	return result.ipams, result.err
}

// parsed are the last configurations, by their text: a cluster has a few networks and many pods. At most 16 MiB.
var parsed = lru.New(256)

type parsedConfig struct {
	ipams []IPAM
	err   error
}

// decodeObject decodes a JSON object and refuses duplicate keys, since decoders differ in which one counts.
func decodeObject(text string) (map[string]any, error) {
	var value any
	strict, err := kjson.UnmarshalStrict([]byte(text), &value)
	if err != nil {
		return nil, fmt.Errorf("spec.config is no JSON: %w", err)
	}
	if len(strict) > 0 {
		return nil, fmt.Errorf("spec.config is ambiguous: %w", strict[0])
	}
	object, isObject := value.(map[string]any)
	if !isObject {
		return nil, fmt.Errorf("spec.config is %.20q, expected a JSON object", strings.TrimSpace(text))
	}
	return object, nil
}

func ipamsOfRoot(root map[string]any) ([]IPAM, error) {
	plugins, err := pluginsOf(root)
	if err != nil {
		return nil, err
	}
	var w walk
	for _, plugin := range plugins {
		w.requireEntry(plugin)
	}
	w.object(root)
	if w.err != nil {
		return nil, w.err
	}
	return w.ipams, nil
}

// pluginsOf gives the configurations of the single plugin, of the members of a plugins list, or of both.
func pluginsOf(root map[string]any) ([]map[string]any, error) {
	var plugins []map[string]any
	if name, err := stringField(root, "type"); err != nil {
		return nil, err
	} else if name != "" {
		plugins = append(plugins, root)
	}
	value, err := field(root, "plugins")
	if err != nil {
		return nil, err
	}
	list, isList := value.([]any)
	if value != nil && !isList {
		return nil, errors.New("spec.config: plugins is no list")
	}
	for i, member := range list {
		plugin, isObject := member.(map[string]any)
		if name, err := stringField(plugin, "type"); !isObject || err != nil || name == "" {
			return nil, fmt.Errorf("spec.config: member %d of plugins is no plugin configuration with a type", i)
		}
		plugins = append(plugins, plugin)
	}
	if len(plugins) == 0 {
		return nil, errors.New("spec.config has neither a type nor a list of plugins")
	}
	return plugins, nil
}

// walk collects IPAMs from a decoded configuration. Delegating plugins put the configuration of others under keys of their own
// choice, so it looks everywhere: what it finds too much costs a needless finalizer.
type walk struct {
	ipams []IPAM
	err   error
}

// requireEntry records a plugin that names no IPAM.
func (w *walk) requireEntry(plugin map[string]any) {
	if value, _ := field(plugin, "ipam"); value == nil {
		name, _ := stringField(plugin, "type")
		w.add(IPAM{Plugin: name})
	}
}

func (w *walk) object(object map[string]any) {
	if w.err != nil {
		return
	}
	plugin, err := stringField(object, "type")
	if err != nil {
		w.fail(err)
		return
	}
	if slices.Contains(indirectPlugins, plugin) {
		w.fail(fmt.Errorf("spec.config: plugin %s takes networks from a file on each node, which cannot be seen from here", plugin))
	}
	value, err := field(object, "ipam")
	if err != nil {
		w.fail(err)
	}
	if value != nil {
		w.ipam(plugin, value)
	}
	for _, key := range sortedKeys(object) {
		if !strings.EqualFold(key, "ipam") {
			w.value(object[key])
		}
	}
}

func (w *walk) value(value any) {
	switch value := value.(type) {
	case map[string]any:
		w.object(value)
	case []any:
		for _, element := range value {
			w.value(element)
		}
	}
}

// ipam reads the ipam section of a plugin, and the IPAMs that it delegates to.
func (w *walk) ipam(plugin string, value any) {
	section, isObject := value.(map[string]any)
	if !isObject {
		w.fail(fmt.Errorf("spec.config: ipam of plugin %q is no JSON object", plugin))
		return
	}
	name, err := stringField(section, "type")
	if err != nil {
		w.fail(fmt.Errorf("ipam of plugin %q: %w", plugin, err))
		return
	}
	w.add(IPAM{Type: name, Plugin: plugin})
	for _, key := range sortedKeys(section) {
		w.delegatedIPAM(plugin, section[key])
	}
}

// delegatedIPAM takes for an IPAM each value that has a type, inside an ipam section.
func (w *walk) delegatedIPAM(plugin string, value any) {
	if w.err != nil {
		return
	}
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			w.delegatedIPAM(plugin, element)
		}
	case map[string]any:
		if kind, err := field(value, "type"); kind != nil || err != nil {
			w.ipam(plugin, value)
			return
		}
		for _, key := range sortedKeys(value) {
			w.delegatedIPAM(plugin, value[key])
		}
	}
}

func (w *walk) add(ipam IPAM) {
	if slices.Contains(w.ipams, ipam) {
		return
	}
	if len(w.ipams) == MaxIPAMs {
		w.fail(fmt.Errorf("spec.config names more than %d IPAMs", MaxIPAMs))
		return
	}
	w.ipams = append(w.ipams, ipam)
}

func (w *walk) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// field gives the value under a key, in any case; nil where there is none.
func field(object map[string]any, key string) (value any, err error) {
	var found []string
	for _, candidate := range sortedKeys(object) {
		if strings.EqualFold(candidate, key) {
			found = append(found, candidate)
			value = object[candidate]
		}
	}
	if len(found) > 1 {
		return nil, fmt.Errorf("spec.config is ambiguous: it has the keys %q", found)
	}
	return value, nil
}

// stringField gives the string under a key, in any case; empty where there is none.
func stringField(object map[string]any, key string) (string, error) {
	value, err := field(object, key)
	if value == nil || err != nil {
		return "", err
	}
	s, isString := value.(string)
	if !isString {
		return "", fmt.Errorf("spec.config: %s is %.20q, expected a string", key, fmt.Sprint(value))
	}
	return s, nil
}

// sortedKeys makes results and errors the same on every run.
func sortedKeys(object map[string]any) []string {
	return slices.Sorted(maps.Keys(object))
}
