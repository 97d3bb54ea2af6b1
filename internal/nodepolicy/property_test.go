// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/release"
)

var (
	named     = []string{"node-1", "node-1", "node-1", "node-2"}
	nodeNames = append(named[:len(named):len(named)], "")
	nodeUIDs  = []string{"live", "live", "live", "dead"}
)

// TestSparedWritesWouldBeAllowed draws writes and holds them against the judgement: a client with the token of a Node
// that lives is kept away from the webhook only if a judgement on that Node would allow the write.
func TestSparedWritesWouldBeAllowed(t *testing.T) {
	const writes = 1500
	for name, edits := range map[string][]edit{
		"by name":                      nil,
		"by name, if present":          of(ifPresent),
		"by name, else denied":         all(ifPresent, missingDenied),
		"by field":                     of(nodeNameAt("spec.node")),
		"by field, if present":         all(nodeNameAt("spec.node"), ifPresent),
		"by field, else denied":        all(nodeNameAt("spec.node"), ifPresent, missingDenied),
		"by expression":                of(nodeNameIs("self.?spec.?node.orValue('')")),
		"by expression, if present":    all(nodeNameIs("self.?spec.?node.orValue('')"), ifPresent),
		"by annotation":                of(uidIn(nodeUIDKey)),
		"by annotation, if present":    all(uidIn(nodeUIDKey), ifPresent),
		"by annotation, else denied":   all(uidIn(nodeUIDKey), ifPresent, missingDenied),
		"with addresses":               of(holding("self.?spec.?ips.orValue([])")),
		"with addresses, if present":   all(holding("self.?spec.?ips.orValue([])"), ifPresent),
		"by name, failing":             of(failing),
		"by name, if present, failing": all(ifPresent, failing),
		"by annotation and expression": all(uidIn(nodeUIDKey), nodeNameIs("self.?spec.?node.orValue('')")),
	} {
		t.Run(name, func(t *testing.T) {
			c := compile(t, edits...)
			m := matcher(c)
			d := draw{Rand: rand.New(rand.NewPCG(1, 2)), uid: "ownerReferences"}
			if c.Policy().Annotation != "" {
				d.uid = "annotations"
			}
			spared := map[string]int{}
			for range writes {
				w, old := write{new: d.object(), user: d.user()}, (*unstructured.Unstructured)(nil)
				switch d.IntN(4) {
				case 0:
					old = d.object()
					w.old = old
				case 1:
					old = w.new.(*unstructured.Unstructured).DeepCopy()
					w.old = old
				}
				got := w.match(t, m)
				if got.Error != nil {
					t.Fatalf("the conditions failed on %+v: %v", w, got.Error)
				}
				if got.Matches {
					continue
				}
				spared[got.FailedConditionName]++
				for _, judgment := range judge(t, c, w, old, got.FailedConditionName) {
					if judgment.Outcome != nodeidentity.Allow {
						t.Fatalf("%s spared %v\nbefore %v\nby %v, which is judged %d: %s", got.FailedConditionName,
							w.new, w.old, w.user, judgment.Outcome, judgment.Message)
					}
				}
			}
			if spared["not-the-nodes-own-writer"] == 0 {
				t.Errorf("no own writer was drawn: %v", spared)
			}
			t.Logf("spared of %d writes: %v", writes, spared)
		})
	}
}

// judge asks what a live read would say: of the token's own Node where that is why the write was spared, else of every
// Node there could be.
func judge(t *testing.T, c *nodepolicy.Compiled, w write, old *unstructured.Unstructured, spared string) []nodeidentity.Judgment {
	t.Helper()
	after, err := c.Object(w.new.(*unstructured.Unstructured))
	if err != nil && (spared == "not-being-deleted" || spared == "not-deleted-by-this-write" || spared == "speaks-for-a-node") {
		return nil
	} else if err != nil {
		t.Fatalf("%s spared an unreadable object: %v", spared, err)
	}
	asked := nodeidentity.Write{Policy: c.Policy(), Operation: admissionv1.Create, New: after}
	if old != nil {
		asked.Operation, asked.Removes = admissionv1.Update, nodeidentity.OnlyRemovals(old, w.new.(*unstructured.Unstructured))
		asked.Gains = c.Gains(old, w.new.(*unstructured.Unstructured))
		if before, err := c.Object(old); err == nil {
			asked.Old = &before
		}
	}
	known := func(uid string) release.Fact[nodeidentity.Node] {
		return release.Known(nodeidentity.Node{UID: types.UID(uid)})
	}
	nodes := []release.Fact[nodeidentity.Node]{known("live"), known("dead"), release.Absent[nodeidentity.Node]()}
	if spared == "not-the-nodes-own-writer" {
		bringsNone(t, &asked)
	}
	if spared == "not-the-nodes-own-writer" && after.NodeName == w.user.GetExtra()[extraNodeName][0] {
		nodes = []release.Fact[nodeidentity.Node]{known(w.user.GetExtra()[extraNodeUID][0])}
	}
	var judgments []nodeidentity.Judgment
	for _, node := range nodes {
		judgments = append(judgments, nodeidentity.Judge(asked, nodeidentity.Evidence{Source: nodeidentity.Live, Node: node}))
	}
	return judgments
}

// bringsNone checks a write of a node's own writer: it may bring a UID only where the policy fails closed.
func bringsNone(t *testing.T, w *nodeidentity.Write) {
	t.Helper()
	isStrict := !strings.HasSuffix(t.Name(), "failing")
	if isStrict && (w.Old == nil || len(w.New.References) > 0 && len(w.Old.References) == 0) {
		t.Fatalf("a write that brings a UID is not judged: %+v, before %+v", w.New, w.Old)
	}
}

// draw makes objects and users by chance; rare is what would hide the rest.
type draw struct {
	*rand.Rand
	// uid is the field of metadata that has the UID.
	uid string
}

func pick[T any](d draw, from ...T) T { return from[d.IntN(len(from))] }

func (d draw) rarely() bool { return d.IntN(12) == 0 }

func (d draw) object() *unstructured.Unstructured {
	name := pick(d, named...)
	metadata := map[string]any{"name": name}
	if d.rarely() {
		metadata["deletionTimestamp"], metadata["finalizers"] = "2026-01-02T03:04:05Z", pick(d, nil, []any{}, []any{"a/b"})
	}
	if d.IntN(4) > 0 {
		metadata["ownerReferences"] = d.owners()
	}
	if d.IntN(4) > 0 {
		metadata["annotations"] = map[string]any{pick(d, nodeUIDKey, nodeUIDKey, "other"): pick(d, "live", "live", "dead", "")}
	}
	if d.rarely() {
		metadata[d.uid] = pick[any](d, nil, "a", []any{"a"}, map[string]any{"a": "b"}, int64(1))
	}
	o := map[string]any{"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": metadata}
	if !d.rarely() {
		o["spec"] = map[string]any{"node": pick(d, nodeNames...), "ips": pick(d, []any{}, []any{"10.0.0.1"}, []any{"10.0.0.2"}, []any{"x"})}
	}
	return &unstructured.Unstructured{Object: o}
}

func (d draw) owners() []any {
	owners := []any{}
	for range d.IntN(3) {
		owners = append(owners, map[string]any{
			"apiVersion": pick(d, "v1", "v1", "v1", "apps/v1"), "kind": pick(d, "Node", "Node", "Node", "Pod"),
			"name": pick(d, named...), "uid": pick(d, nodeUIDs...),
		})
	}
	return owners
}

func (d draw) user() user.Info {
	extra := map[string][]string{}
	d.extra(extra, extraNodeName, nodeNames...)
	d.extra(extra, extraNodeUID, append(nodeUIDs[:len(nodeUIDs):len(nodeUIDs)], "")...)
	return &user.DefaultInfo{Name: "agent", Extra: extra}
}

func (d draw) extra(extra map[string][]string, key string, values ...string) {
	switch d.IntN(12) {
	case 0:
	case 1:
		extra[key] = []string{}
	case 2:
		extra[key] = []string{pick(d, values...), pick(d, values...)}
	default:
		extra[key] = []string{pick(d, values...)}
	}
}
