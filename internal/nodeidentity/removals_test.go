// SPDX-License-Identifier: Apache-2.0

package nodeidentity

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const hostSubnet = `
apiVersion: network.openshift.io/v1
kind: HostSubnet
metadata:
  name: node-1
  uid: object-uid
  resourceVersion: "7"
  generation: 3
  creationTimestamp: "2026-03-01T10:00:00Z"
  labels: {app: cns}
  annotations: {pod.network.openshift.io/node-uid: 00000000-stale}
  finalizers: [example.com/first, example.com/second]
  managedFields: [{manager: kubelet, operation: Update}]
  ownerReferences:
  - {apiVersion: v1, kind: Node, name: node-1, uid: 00000000-stale, controller: true, blockOwnerDeletion: true}
  - {apiVersion: apps/v1, kind: Deployment, name: operator, uid: 33333333-operator}
spec: {requestedIPCount: 16, ipsNotInUse: [a, b]}
status: {assignedIPCount: 16, networkContainers: [{id: nc-1, version: 4}]}
`

func parse(t *testing.T, document string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// set changes a field of an object; a nil value removes it.
func set(value any, fields ...string) func(map[string]any) {
	return func(o map[string]any) {
		for _, field := range fields[:len(fields)-1] {
			o = o[field].(map[string]any)
		}
		if last := fields[len(fields)-1]; value != nil {
			o[last] = value
		} else {
			delete(o, last)
		}
	}
}

func nodeRef(changes ...any) map[string]any {
	r := map[string]any{
		"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "00000000-stale", "controller": true, "blockOwnerDeletion": true,
	}
	for i := 0; i < len(changes); i += 2 {
		set(changes[i+1], changes[i].(string))(r)
	}
	return r
}

func operatorRef() map[string]any {
	return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "operator", "uid": "33333333-operator"}
}

func owners(references ...any) func(map[string]any) {
	return set(references, "metadata", "ownerReferences")
}
func finalizers(names ...any) func(map[string]any) { return set(names, "metadata", "finalizers") }

type change = func(map[string]any)

func TestOnlyRemovals(t *testing.T) {
	dropOwner, dropFinalizer := owners(operatorRef()), finalizers("example.com/second")
	for name, tc := range map[string]struct {
		changes []change
		want    bool
	}{
		"a dropped Node reference":                     {[]change{dropOwner}, true},
		"every owner reference dropped":                {[]change{set(nil, "metadata", "ownerReferences")}, true},
		"every owner reference dropped, an empty list": {[]change{owners()}, true},
		"another owner dropped":                        {[]change{owners(nodeRef())}, true},
		"a dropped finalizer":                          {[]change{dropFinalizer}, true},
		"every finalizer dropped":                      {[]change{set(nil, "metadata", "finalizers")}, true},
		"both dropped":                                 {[]change{dropOwner, dropFinalizer}, true},
		"an unblocked deletion":                        {[]change{owners(nodeRef("blockOwnerDeletion", false), operatorRef())}, true},
		"an unblocked deletion, the field gone":        {[]change{owners(nodeRef("blockOwnerDeletion", nil), operatorRef())}, true},
		"a controller that resigns":                    {[]change{owners(nodeRef("controller", nil), operatorRef())}, true},
		"references that stay in another order": {
			[]change{owners(operatorRef(), nodeRef("controller", false))}, true,
		},
		"finalizers that stay in another order": {
			[]change{finalizers("example.com/second", "example.com/first"), dropOwner}, true,
		},
		"what the API server changes with every write": {[]change{
			dropOwner, set("8", "metadata", "resourceVersion"), set(int64(4), "metadata", "generation"),
			set([]any{map[string]any{"manager": "gc"}}, "metadata", "managedFields"),
		}, true},

		"nothing at all": {nil, false},
		"nothing but a version of the API server's": {[]change{set("8", "metadata", "resourceVersion")}, false},
		"nothing but the order":                     {[]change{owners(operatorRef(), nodeRef()), finalizers("example.com/second", "example.com/first")}, false},
		"nothing but a false that was not there": {
			[]change{owners(nodeRef(), func() any { r := operatorRef(); r["blockOwnerDeletion"] = false; return r }())}, false,
		},
		"a repair, which writes another UID": {[]change{owners(nodeRef("uid", "11111111-live"), operatorRef())}, false},
		"a reference to another name":        {[]change{owners(nodeRef("name", "node-2"))}, false},
		"a reference of another kind":        {[]change{owners(nodeRef("kind", "Machine"))}, false},
		"a reference of another version":     {[]change{owners(nodeRef("apiVersion", "v2"))}, false},
		"a reference without a UID":          {[]change{owners(nodeRef("uid", nil))}, false},
		"an unknown field of a reference":    {[]change{owners(nodeRef("fence", true))}, false},
		"a flag that is no flag":             {[]change{owners(nodeRef("controller", "true"), operatorRef())}, false},
		"a reference added":                  {[]change{owners(nodeRef(), operatorRef(), nodeRef("uid", "11111111-live"))}, false},
		"a reference doubled, another dropped": {
			[]change{owners(operatorRef(), operatorRef())}, false,
		},
		"a finalizer added":                            {[]change{finalizers("example.com/first", "example.com/second", "example.com/third")}, false},
		"a finalizer exchanged":                        {[]change{finalizers("example.com/first", "example.com/third")}, false},
		"a finalizer added, a reference dropped":       {[]change{dropOwner, finalizers("example.com/first", "example.com/second", "x/y")}, false},
		"the annotation with the UID dropped":          {[]change{dropFinalizer, set(nil, "metadata", "annotations")}, false},
		"the annotation with the UID changed":          {[]change{dropFinalizer, set("x", "metadata", "annotations", uidAnnotation)}, false},
		"a label beside it":                            {[]change{dropOwner, set("x", "metadata", "labels", "app")}, false},
		"a spec beside it":                             {[]change{dropOwner, set(int64(32), "spec", "requestedIPCount")}, false},
		"a status beside it":                           {[]change{dropOwner, set(int64(32), "status", "assignedIPCount")}, false},
		"a status dropped":                             {[]change{dropOwner, set(nil, "status")}, false},
		"a deletionTimestamp beside it":                {[]change{dropOwner, set("2026-03-01T11:00:00Z", "metadata", "deletionTimestamp")}, false},
		"another object":                               {[]change{dropOwner, set("other", "metadata", "uid")}, false},
		"references that are no list":                  {[]change{set("all", "metadata", "ownerReferences")}, false},
		"references that are no references":            {[]change{owners("node-1")}, false},
		"finalizers that are no list":                  {[]change{set("all", "metadata", "finalizers")}, false},
		"finalizers that are no names":                 {[]change{finalizers(int64(1))}, false},
		"metadata that is none":                        {[]change{set("none", "metadata")}, false},
		"a reference with what cannot be written down": {[]change{owners(nodeRef("fence", func() {}))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := parse(t, hostSubnet), parse(t, hostSubnet)
			for _, apply := range tc.changes {
				apply(after.Object)
			}
			if got := OnlyRemovals(before, after); got != tc.want {
				t.Errorf("OnlyRemovals = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestOnlyRemovalsHasNoWayBack(t *testing.T) {
	before, after := parse(t, hostSubnet), parse(t, hostSubnet)
	owners(operatorRef())(after.Object)
	if OnlyRemovals(after, before) {
		t.Error("an owner reference that is added counts as a removal")
	}
}

func TestOnlyRemovalsNeedsTwoObjects(t *testing.T) {
	u := parse(t, hostSubnet)
	for name, pair := range map[string][2]*unstructured.Unstructured{
		"no old": {nil, u}, "no new": {u, nil}, "neither": {nil, nil}, "empty": {{}, {}}, "empty new": {u, {}}, "empty old": {{}, u},
	} {
		if OnlyRemovals(pair[0], pair[1]) {
			t.Errorf("%s: counts as a removal", name)
		}
	}
}

// TestOnlyRemovalsSeesEveryOtherChange changes and drops each field of an object in turn, beside a finalizer that is dropped.
func TestOnlyRemovalsSeesEveryOtherChange(t *testing.T) {
	uncounted := map[string]bool{
		"metadata.managedFields": true, "metadata.resourceVersion": true, "metadata.generation": true,
		"metadata.ownerReferences": true, "metadata.finalizers": true,
	}
	seen := 0
	for _, path := range paths(parse(t, hostSubnet).Object) {
		if joined := join(path); uncounted[joined] || joined == "metadata" {
			continue
		}
		for name, value := range map[string]any{"changed": "another value", "dropped": nil} {
			seen++
			before, after := parse(t, hostSubnet), parse(t, hostSubnet)
			finalizers("example.com/first")(after.Object)
			set(value, path...)(after.Object)
			if OnlyRemovals(before, after) {
				t.Errorf("%s %s counts as a removal", join(path), name)
			}
		}
	}
	if want := 20; seen < want {
		t.Errorf("%d changes tried, want at least %d", seen, want)
	}
}

func TestOnlyRemovalsChangesNeitherObject(t *testing.T) {
	before, after := parse(t, hostSubnet), parse(t, hostSubnet)
	owners(nodeRef("controller", false))(after.Object)
	beforeCopy, afterCopy := before.DeepCopy(), after.DeepCopy()
	if !OnlyRemovals(before, after) {
		t.Error("a reference that is dropped does not count as letting go")
	}
	if diff := cmp.Diff([]any{beforeCopy.Object, afterCopy.Object}, []any{before.Object, after.Object}); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

// paths are the paths of every field that is reached through objects only.
func paths(o map[string]any) [][]string {
	var all [][]string
	for field, value := range o {
		all = append(all, []string{field})
		if child, ok := value.(map[string]any); ok {
			for _, path := range paths(child) {
				all = append(all, append([]string{field}, path...))
			}
		}
	}
	return all
}

func join(path []string) string {
	joined := path[0]
	for _, field := range path[1:] {
		joined = fmt.Sprintf("%s.%s", joined, field)
	}
	return joined
}
