// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

const (
	extraNodeName = "authentication.kubernetes.io/node-name"
	extraNodeUID  = "authentication.kubernetes.io/node-uid"
)

// apiServer compiles match conditions as the API server does.
var apiServer = sync.OnceValue(func() plugincel.ConditionCompiler {
	return plugincel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

// matcher is the API server's own, of the policy's entry. It fails on error, so that an error can be told from a match.
func matcher(c *nodepolicy.Compiled) matchconditions.Matcher {
	entry := c.Entry(service(), authority)
	entry.FailurePolicy = new(admissionregistrationv1.Fail)
	return webhook.NewValidatingWebhookAccessor("uid", "holdfast-node-resources", &entry).GetCompiledMatcher(apiServer())
}

// write is a request; old is nil for a creation.
type write struct {
	old, new runtime.Object
	user     user.Info
}

func (w write) match(t *testing.T, m matchconditions.Matcher) matchconditions.MatchResult {
	t.Helper()
	return m.Match(t.Context(), w.attributes(), nil, nil)
}

func (w write) attributes() *admission.VersionedAttributes {
	operation := admission.Create
	if w.old != nil {
		operation = admission.Update
	}
	gvk := schema.GroupVersionKind{Group: "cilium.io", Version: "v2", Kind: "CiliumNode"}
	attributes := admission.NewAttributesRecord(w.new, w.old, gvk, "", "node-1", gvk.GroupVersion().WithResource("ciliumnodes"), "",
		operation, nil, false, w.user)
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: gvk}
	versioned.VersionedObject.Set(w.new)
	if w.old != nil {
		versioned.VersionedOldObject.Set(w.old)
	}
	return versioned
}

// token is a user with the extras of a token; values of one are separated by commas.
func token(extras ...string) user.Info {
	info := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:agent", Extra: map[string][]string{}}
	for i := 0; i < len(extras); i += 2 {
		info.Extra[extras[i]] = strings.Split(extras[i+1], ",")
	}
	return info
}

func boundTo(name, uid string) user.Info { return token(extraNodeName, name, extraNodeUID, uid) }

const (
	owned        = "metadata: {name: node-1, ownerReferences: [{apiVersion: v1, kind: Node, name: node-1, uid: live}]}"
	ownedOld     = "metadata: {name: node-1, ownerReferences: [{apiVersion: v1, kind: Node, name: node-1, uid: dead}]}"
	ownedOther   = "metadata: {name: node-1, ownerReferences: [{apiVersion: v1, kind: Node, name: node-2, uid: live}]}"
	unowned      = "metadata: {name: node-1}"
	noOwners     = "metadata: {name: node-1, ownerReferences: []}"
	mixed        = "metadata: {name: node-1, ownerReferences: [{apiVersion: v1, kind: Node, name: node-1, uid: live}, {apiVersion: v1, kind: Node, name: node-1, uid: dead}]}"
	withOthers   = "metadata: {name: node-1, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: x}, {apiVersion: v1, kind: Node, name: node-1, uid: live}]}"
	onlyOthers   = "metadata: {name: node-1, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: live}]}"
	strange      = "metadata: {name: node-1, ownerReferences: [{apiVersion: other/v1, kind: Node, name: node-1, uid: live}, {apiVersion: v1, kind: Pod, name: node-1, uid: live}]}"
	deleting     = `metadata: {name: node-1, deletionTimestamp: "2026-01-02T03:04:05Z", ownerReferences: [{apiVersion: v1, kind: Node, name: node-1, uid: dead}]}`
	deletingHeld = `metadata: {name: node-1, deletionTimestamp: "2026-01-02T03:04:05Z", finalizers: [a/b], ownerReferences: [{apiVersion: v1, kind: Node, name: node-1, uid: dead}]}`
	renamed      = "metadata: {name: node-2, ownerReferences: [{apiVersion: v1, kind: Node, name: node-1, uid: live}]}"
)

func annotated(values ...string) string {
	if len(values) == 0 {
		return "metadata: {name: node-1, annotations: {other: live}}"
	}
	return fmt.Sprintf("metadata: {name: node-1, annotations: {%s: %q}}", nodeUIDKey, values[0])
}

func specNode(name, uid string) string {
	return fmt.Sprintf("metadata: {name: x, ownerReferences: [{apiVersion: v1, kind: Node, name: %s, uid: %s}]}\nspec: {at: {node: %s}}", name, uid, name)
}

// Every case names the condition that keeps the write away from the webhook; none means that it is judged. An error fits neither.
func TestMatchConditions(t *testing.T) {
	const (
		judged  = ""
		exempt  = "not-exempt"
		dying   = "not-being-deleted"
		goes    = "not-deleted-by-this-write"
		noNode  = "speaks-for-a-node"
		noUID   = "carries-a-node-uid"
		itsSelf = "not-the-nodes-own-writer"
	)
	right := boundTo("node-1", "live")
	inField, inExpression := nodeNameAt("spec.at.node"), nodeNameIs("has(self.spec) ? self.spec.at.node : ''")
	affinity := nodeNameIs(calicoNode + " // host:<node>")
	for name, tc := range map[string]struct {
		edits    []edit
		old, new string
		user     user.Info
		want     string
	}{
		"the node's agent creates":                  {nil, "", owned, right, judged},
		"the predecessor's agent creates":           {nil, "", ownedOld, boundTo("node-1", "dead"), judged},
		"Fail: the node's agent creates":            {of(failing), "", owned, right, itsSelf},
		"Fail: another node's agent creates":        {of(failing), "", owned, boundTo("node-2", "live"), judged},
		"Fail, if present: brought by its writer":   {all(failing, ifPresent), unowned, owned, right, itsSelf},
		"the node's agent updates":                  {nil, owned, owned, right, itsSelf},
		"other owners beside":                       {nil, withOthers, withOthers, right, itsSelf},
		"another node's agent":                      {nil, owned, owned, boundTo("node-2", "live"), judged},
		"a token of the node's predecessor":         {nil, owned, owned, boundTo("node-1", "dead"), judged},
		"the predecessor's agent on its own object": {nil, ownedOld, ownedOld, boundTo("node-1", "dead"), itsSelf},
		"a stale object, adopted":                   {nil, ownedOld, owned, right, judged},
		"a stale object, unchanged":                 {nil, ownedOld, ownedOld, right, judged},
		"a good object, made stale":                 {nil, owned, ownedOld, right, judged},
		"an object that had no reference":           {nil, unowned, owned, right, judged},
		"an object that loses its reference":        {nil, owned, unowned, right, judged},
		"created without a reference":               {nil, "", unowned, right, judged},
		"created with an empty list":                {nil, "", noOwners, right, judged},
		"created with other owners only":            {nil, "", onlyOthers, right, judged},
		"created with what is no Node":              {nil, "", strange, right, judged},
		"one reference right, one stale":            {nil, "", mixed, right, judged},
		"one stale reference before":                {nil, mixed, owned, right, judged},
		"a reference of another name":               {nil, "", ownedOther, right, judged},
		"another name than the reference":           {nil, "", renamed, right, judged},
		"no token of a pod":                         {nil, owned, owned, token(), judged},
		"no extras at all":                          {nil, owned, owned, &user.DefaultInfo{Name: "admin"}, judged},
		"no user":                                   {of(exempting("a")), owned, owned, &user.DefaultInfo{}, judged},
		"a token without the node's UID":            {nil, owned, owned, token(extraNodeName, "node-1"), judged},
		"a token without the node's name":           {nil, owned, owned, token(extraNodeUID, "live"), judged},
		"a token with two UIDs":                     {nil, owned, owned, boundTo("node-1", "live,dead"), judged},
		"a token with two UIDs, the right one last": {nil, owned, owned, boundTo("node-1", "dead,live"), judged},
		"a token with two names":                    {nil, owned, owned, boundTo("node-1,node-2", "live"), judged},
		"a token with one UID twice":                {nil, owned, owned, boundTo("node-1", "live,live"), judged},
		"a token with one name twice":               {nil, owned, owned, boundTo("node-1,node-1", "live"), judged},
		"a token with no UIDs": {nil, owned, owned, &user.DefaultInfo{Extra: map[string][]string{
			extraNodeName: {"node-1"}, extraNodeUID: {}}}, judged},
		"another client, everything right":                 {nil, owned, owned, &user.DefaultInfo{Name: "operator"}, judged},
		"being deleted":                                    {nil, deleting, deleting, token(), dying},
		"being deleted, by a policy with addresses":        {of(holding("self.a")), deleting, deletingHeld, token(), judged},
		"being deleted, the last finalizer goes":           {of(holding("self.a")), deletingHeld, deleting, token(), goes},
		"being deleted, finalizers become empty":           {of(holding("self.a")), deletingHeld, strings.Replace(deletingHeld, "[a/b]", "[]", 1), token(), goes},
		"being deleted, by the node's agent":               {of(holding("self.a")), deletingHeld, strings.Replace(deletingHeld, "dead", "live", 1), right, judged},
		"not being deleted, by a policy with addresses":    {of(holding("self.a")), ownedOld, ownedOld, token(), judged},
		"being deleted, finalizers are no list":            {of(holding("self.a")), deletingHeld, strings.Replace(deletingHeld, "[a/b]", "a", 1), token(), judged},
		"being deleted, as its creator claims":             {nil, "", deleting, token(), judged},
		"a deletion timestamp that is null":                {nil, owned, "metadata: {name: node-1, deletionTimestamp: null}", token(), judged},
		"exempt":                                           {of(exempting("b", "agent")), ownedOld, ownedOld, &user.DefaultInfo{Name: "agent"}, exempt},
		"exempt, with quotes and backslashes":              {of(exempting(`o'ne "two" \three\`)), owned, owned, &user.DefaultInfo{Name: `o'ne "two" \three\`}, exempt},
		"exempt, with letters of every kind":               {of(exempting("Jürgen\u200b 🦊\n\x7f")), owned, owned, &user.DefaultInfo{Name: "Jürgen\u200b 🦊\n\x7f"}, exempt},
		"not exempt, though it begins like one":            {of(exempting("agent")), owned, owned, &user.DefaultInfo{Name: "agents"}, judged},
		"not exempt, though it looks like code":            {of(exempting(`"] || true || "" in ["`)), owned, owned, &user.DefaultInfo{Name: "agent"}, judged},
		"if present: absent":                               {of(ifPresent), unowned, unowned, token(), noUID},
		"if present: an empty list":                        {of(ifPresent), unowned, noOwners, token(), noUID},
		"if present: other owners only":                    {of(ifPresent), unowned, onlyOthers, token(), noUID},
		"if present: what is no Node":                      {of(ifPresent), unowned, strange, token(), noUID},
		"if present: present":                              {of(ifPresent), unowned, owned, token(), judged},
		"if present: brought by its own writer":            {of(ifPresent), unowned, owned, right, judged},
		"if present: brought by the predecessor's agent":   {of(ifPresent), unowned, ownedOld, boundTo("node-1", "dead"), judged},
		"if present: present, own writer":                  {of(ifPresent), owned, owned, right, itsSelf},
		"if present: stale before":                         {of(ifPresent), ownedOld, owned, right, judged},
		"if present: stale":                                {of(ifPresent), "", ownedOld, right, judged},
		"if present, else denied: absent":                  {all(ifPresent, missingDenied), "", unowned, token(), judged},
		"if present, else denied: absent, own writer":      {all(ifPresent, missingDenied), unowned, unowned, right, itsSelf},
		"if present, else denied: created, own writer":     {all(ifPresent, missingDenied), "", unowned, right, judged},
		"if present, else denied: absent, another node's":  {all(ifPresent, missingDenied), "", unowned, boundTo("node-2", "live"), judged},
		"if present: stale before, dropped now":            {of(ifPresent), ownedOld, unowned, token(), judged},
		"if present: right before, dropped now":            {of(ifPresent), owned, noOwners, token(), judged},
		"if present: dropped by its own writer":            {of(ifPresent), owned, unowned, right, itsSelf},
		"if present: stale before, dropped by the agent":   {of(ifPresent), ownedOld, unowned, right, judged},
		"if present: another owner is dropped":             {of(ifPresent), onlyOthers, unowned, token(), noUID},
		"annotation: own writer":                           {of(uidIn(nodeUIDKey)), annotated("live"), annotated("live"), right, itsSelf},
		"annotation: created by its own writer":            {of(uidIn(nodeUIDKey)), "", annotated("live"), right, judged},
		"annotation: another UID":                          {of(uidIn(nodeUIDKey)), "", annotated("dead"), right, judged},
		"annotation: another UID before":                   {of(uidIn(nodeUIDKey)), annotated("dead"), annotated("live"), right, judged},
		"annotation: not there":                            {of(uidIn(nodeUIDKey)), "", annotated(), right, judged},
		"annotation: no annotations":                       {of(uidIn(nodeUIDKey)), "", unowned, right, judged},
		"annotation: not there before":                     {of(uidIn(nodeUIDKey)), annotated(), annotated("live"), right, judged},
		"annotation: empty, as the token's UID":            {of(uidIn(nodeUIDKey)), "", annotated(""), boundTo("node-1", ""), judged},
		"annotation: owner references are not looked at":   {of(uidIn(nodeUIDKey)), "", owned, right, judged},
		"annotation if present: absent":                    {all(uidIn(nodeUIDKey), ifPresent), "", annotated(), right, noUID},
		"annotation if present: no annotations":            {all(uidIn(nodeUIDKey), ifPresent), "", owned, right, noUID},
		"annotation if present: empty":                     {all(uidIn(nodeUIDKey), ifPresent), "", annotated(""), right, judged},
		"annotation if present: dropped":                   {all(uidIn(nodeUIDKey), ifPresent), annotated("dead"), annotated(), right, judged},
		"annotation if present: dropped with the others":   {all(uidIn(nodeUIDKey), ifPresent), annotated("dead"), unowned, token(), judged},
		"annotation if present: own writer":                {all(uidIn(nodeUIDKey), ifPresent), annotated("live"), annotated("live"), right, itsSelf},
		"annotation if present: brought by its own writer": {all(uidIn(nodeUIDKey), ifPresent), annotated(), annotated("live"), right, judged},
		"annotation if present: dropped by its own writer": {all(uidIn(nodeUIDKey), ifPresent), annotated("live"), annotated(), right, itsSelf},
		"annotation if present: another UID":               {all(uidIn(nodeUIDKey), ifPresent), annotated(), annotated("dead"), right, judged},
		"annotation if present, else denied: own writer":   {all(uidIn(nodeUIDKey), ifPresent, missingDenied), annotated(), annotated(), right, itsSelf},
		"field: own writer":                                {of(inField), specNode("node-1", "live"), specNode("node-1", "live"), right, itsSelf},
		"field: another node":                              {of(inField), "", specNode("node-2", "live"), right, judged},
		"field: another node before":                       {of(inField), specNode("node-2", "live"), specNode("node-1", "live"), right, judged},
		"field: not there":                                 {of(inField), "", owned + "\nspec: {at: {}}", right, noNode},
		"field: nothing on the way":                        {of(inField), "", owned, right, noNode},
		"field: null on the way":                           {of(inField), "", owned + "\nspec: {at: null}", right, noNode},
		"field: null":                                      {of(inField), "", owned + "\nspec: {at: {node: null}}", right, noNode},
		"field: empty":                                     {of(inField), "", owned + "\nspec: {at: {node: ''}}", right, noNode},
		"field: a number":                                  {of(inField), "", owned + "\nspec: {at: {node: 1}}", right, judged},
		"field: an object":                                 {of(inField), "", owned + "\nspec: {at: {node: {a: b}}}", right, judged},
		"field: no object on the way":                      {of(inField), "", owned + "\nspec: node-1", right, judged},
		"field: a list on the way":                         {of(inField), "", owned + "\nspec: {at: [node]}", right, judged},
		"field: not there before":                          {of(inField), owned, specNode("node-1", "live"), right, judged},
		"field: no object on the way before":               {of(inField), owned + "\nspec: 1", specNode("node-1", "live"), right, judged},
		"field: the name is a word of CEL":                 {of(nodeNameAt("spec.in.namespace")), owned + "\nspec: {in: {namespace: node-1}}", owned + "\nspec: {in: {namespace: node-1}}", right, itsSelf},
		"field of the object itself":                       {of(nodeNameAt("host")), owned + "\nhost: node-1", owned + "\nhost: node-1", right, itsSelf},
		"expression: own writer":                           {of(inExpression), specNode("node-1", "live"), specNode("node-1", "live"), right, itsSelf},
		"expression: another node":                         {of(inExpression), "", specNode("node-2", "live"), right, judged},
		"expression: another node before":                  {of(inExpression), specNode("node-2", "live"), specNode("node-1", "live"), right, judged},
		"expression: no node":                              {of(inExpression), "", owned, right, noNode},
		"expression: no node before":                       {of(inExpression), owned, specNode("node-1", "live"), right, judged},
		"expression with a comment: own writer":            {of(affinity), owned + "\nspec: {affinity: 'host:node-1'}", owned + "\nspec: {affinity: 'host:node-1'}", right, itsSelf},
		"expression with a comment: another client":        {of(affinity), "", owned + "\nspec: {affinity: 'host:node-1'}", token(), judged},
		"expression with a comment: no node":               {of(affinity), "", owned + "\nspec: {affinity: 'virtual:x'}", right, noNode},
		"expression that shadows self":                     {of(nodeNameIs("self.nodes.filter(self, self != '')[0]")), owned + "\nnodes: ['', node-1]", owned + "\nnodes: ['', node-1]", right, itsSelf},
		"expression with our variables of its own":         {of(nodeNameIs("self.nodes.filter(nodeName, nodeName != '').map(nodeUID, nodeUID)[0]")), owned + "\nnodes: ['', node-1]", owned + "\nnodes: ['', node-1]", right, itsSelf},
		"expression that is an alternative":                {of(nodeNameIs("has(self.a) ? self.a : self.b")), owned + "\nb: node-1", owned + "\nb: node-1", right, itsSelf},
		"expression that gives a number":                   {of(nodeNameIs("self.a")), "", owned + "\na: 5", right, judged},
		"weird: owners are no list":                        {nil, "", "metadata: {name: node-1, ownerReferences: {a: b}}", right, judged},
		"weird: owners are null":                           {nil, "", "metadata: {name: node-1, ownerReferences: null}", right, judged},
		"weird: an owner is a string":                      {nil, "", "metadata: {name: node-1, ownerReferences: [a]}", right, judged},
		"weird: an owner is empty":                         {nil, "", "metadata: {name: node-1, ownerReferences: [{}]}", right, judged},
		"weird: a Node without a name or UID":              {nil, "", "metadata: {name: node-1, ownerReferences: [{apiVersion: v1, kind: Node}]}", right, judged},
		"weird: no name":                                   {nil, "", "metadata: {ownerReferences: []}", right, judged},
		"weird: metadata without anything":                 {all(ifPresent, missingDenied), "", "metadata: {}", right, judged},
		"weird, if present: owners are no list":            {of(ifPresent), "", "metadata: {name: node-1, ownerReferences: a}", right, judged},
		"weird, if present: an owner is a string":          {of(ifPresent), "", "metadata: {name: node-1, ownerReferences: [a]}", right, judged},
		"weird, if present: owners were no list, none now": {of(ifPresent), "metadata: {name: node-1, ownerReferences: a}", unowned, token(), judged},
		"weird, if present: owners were no list":           {of(ifPresent), "metadata: {name: node-1, ownerReferences: a}", owned, right, judged},
		"weird: annotations are a string":                  {of(uidIn(nodeUIDKey)), "", "metadata: {name: node-1, annotations: a}", right, judged},
		"weird: the annotation is a number":                {of(uidIn(nodeUIDKey)), "", "metadata: {name: node-1, annotations: {" + nodeUIDKey + ": 5}}", right, judged},
		"weird, if present: annotations are a string":      {all(uidIn(nodeUIDKey), ifPresent), "", "metadata: {name: node-1, annotations: a}", right, judged},
		"weird, if present: annotations were a string":     {all(uidIn(nodeUIDKey), ifPresent), "metadata: {name: node-1, annotations: a}", annotated("live"), right, judged},
	} {
		t.Run(name, func(t *testing.T) {
			w := write{new: object(t, tc.new), user: tc.user}
			if tc.old != "" {
				w.old = object(t, tc.old)
			}
			got := w.match(t, matcher(compile(t, tc.edits...)))
			want := matchconditions.MatchResult{Matches: tc.want == judged, FailedConditionName: tc.want}
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" {
				t.Errorf("match (-want +got):\n%s", diff)
			}
		})
	}
}

// Of the owner references of an object the conditions look at 16; an object with more is judged.
func TestMatchConditionsLookAtSoManyOwners(t *testing.T) {
	const most = 16
	for name, tc := range map[string]struct {
		edits    []edit
		old, new *unstructured.Unstructured
		user     user.Info
		want     string
	}{
		"own writer, as many as are looked at": {nil, owners(most, "live"), owners(most, "live"), boundTo("node-1", "live"), "not-the-nodes-own-writer"},
		"own writer, one more":                 {nil, owners(most, "live"), owners(most+1, "live"), boundTo("node-1", "live"), ""},
		"own writer, one more before":          {nil, owners(most+1, "live"), owners(most, "live"), boundTo("node-1", "live"), ""},
		"no Node, as many as are looked at":    {of(ifPresent), owners(most, ""), owners(most, ""), token(), "carries-a-node-uid"},
		"no Node, one more":                    {of(ifPresent), owners(most, ""), owners(most+1, ""), token(), ""},
		"no Node, one more before":             {of(ifPresent), owners(most+1, ""), owners(most, ""), token(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := write{old: tc.old, new: tc.new, user: tc.user}.match(t, matcher(compile(t, tc.edits...)))
			if got.Error != nil || got.FailedConditionName != tc.want || got.Matches != (tc.want == "") {
				t.Errorf("got %+v; want condition %q", got, tc.want)
			}
		})
	}
}

// owners is an object of node-1 with so many owner references: to Node node-1 with a UID, or to Pods without one.
func owners(count int, nodeUID string) *unstructured.Unstructured {
	list := make([]any, count)
	for i := range list {
		owner := map[string]any{"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": nodeUID}
		if nodeUID == "" {
			owner["kind"], owner["uid"] = "Pod", strconv.Itoa(i)
		}
		list[i] = owner
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": map[string]any{"name": "node-1", "ownerReferences": list},
		"spec": map[string]any{"node": "node-1"},
	}}
}

// The conditions are evaluated in the API server, before the webhook's timeout begins. An object of the size that etcd
// takes has about 28,000 owner references.
func TestMatchConditionsCostNoMoreForManyOwners(t *testing.T) {
	for name, edits := range map[string][]edit{
		"by name":                    nil,
		"by name, if present":        of(ifPresent),
		"by field, if present":       all(nodeNameAt("spec.node"), ifPresent),
		"by annotation":              of(uidIn(nodeUIDKey)),
		"by annotation, if present":  all(uidIn(nodeUIDKey), ifPresent),
		"if present and else denied": all(ifPresent, missingDenied),
	} {
		t.Run(name, func(t *testing.T) {
			c := compile(t, edits...)
			for _, uid := range []string{"live", "dead", ""} {
				most := cost(t, c, write{owners(16, uid), owners(16, uid), boundTo("node-1", "live")})
				if most > 2_000 {
					t.Errorf("UID %q: 16 owner references cost %d", uid, most)
				}
				for _, count := range []int{17, 28_000} {
					if got := cost(t, c, write{owners(count, uid), owners(count, uid), boundTo("node-1", "live")}); got > most {
						t.Errorf("UID %q: %d owner references cost %d; 16 cost %d", uid, count, got, most)
					}
				}
			}
		})
	}
}

// cost is what the API server counts for all conditions of a write together.
func cost(t *testing.T, c *nodepolicy.Compiled, w write) int64 {
	t.Helper()
	var accessors []plugincel.ExpressionAccessor
	for _, condition := range c.Entry(service(), authority).MatchConditions {
		accessors = append(accessors, (*matchconditions.MatchCondition)(&condition))
	}
	evaluator := apiServer().CompileCondition(accessors, plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	attributes := w.attributes()
	request := plugincel.CreateAdmissionRequest(attributes.Attributes,
		metav1.GroupVersionResource(attributes.GetResource()), metav1.GroupVersionKind(attributes.VersionedKind))
	const budget = celconfig.RuntimeCELCostBudgetMatchConditions
	results, left, err := evaluator.ForInput(t.Context(), attributes, request, plugincel.OptionalVariableBindings{}, nil, budget)
	if err != nil {
		t.Fatal(err)
	}
	for i := range results {
		if results[i].Error != nil {
			t.Fatal(results[i].Error)
		}
	}
	return budget - left
}

// A resource that is built in reaches the conditions as a Go type, not as a map.
func TestMatchConditionsOfBuiltInTypes(t *testing.T) {
	slice := func(node string, owners ...metav1.OwnerReference) runtime.Object {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a", OwnerReferences: owners}}
		if node != "" {
			s.Spec.NodeName = &node
		}
		return s
	}
	right := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "live"}
	stale := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "dead"}
	m := matcher(compile(t, guards("resource.k8s.io", "resourceslices"), nodeNameAt("spec.nodeName"), warning))
	for name, tc := range map[string]struct {
		write write
		want  string
	}{
		"own writer creates":   {write{nil, slice("node-1", right), boundTo("node-1", "live")}, ""},
		"own writer updates":   {write{slice("node-1", right), slice("node-1", right), boundTo("node-1", "live")}, "not-the-nodes-own-writer"},
		"stale before":         {write{slice("node-1", stale), slice("node-1", right), boundTo("node-1", "live")}, ""},
		"no reference":         {write{nil, slice("node-1"), boundTo("node-1", "live")}, ""},
		"another node's agent": {write{nil, slice("node-1", right), boundTo("node-2", "live")}, ""},
		"of no node":           {write{nil, slice("", right), boundTo("node-1", "live")}, "speaks-for-a-node"},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.write.match(t, m)
			if got.Error != nil || got.FailedConditionName != tc.want || got.Matches != (tc.want == "") {
				t.Errorf("got %+v; want condition %q", got, tc.want)
			}
		})
	}
}

// An error of the policy's own expression is left to failurePolicy, but it does not reach a write that needs no judgement.
func TestMatchConditionsWithAnExpressionThatFails(t *testing.T) {
	m := matcher(compile(t, nodeNameIs("self.spec.node"), exempting("admin")))
	for name, tc := range map[string]struct {
		object string
		user   user.Info
		failed string
	}{
		"a writer that has to be judged": {owned, token(), ""},
		"the node's own writer":          {owned, boundTo("node-1", "live"), ""},
		"exempt":                         {owned, &user.DefaultInfo{Name: "admin"}, "not-exempt"},
		"being deleted":                  {deleting, token(), "not-being-deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			got := write{old: object(t, owned), new: object(t, tc.object), user: tc.user}.match(t, m)
			if (got.Error != nil) != (tc.failed == "") || got.FailedConditionName != tc.failed {
				t.Errorf("got %+v; want condition %q", got, tc.failed)
			}
		})
	}
}

func TestMatchConditionsAreThoseOfThePolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		edits []edit
		want  []string
	}{
		"as little as can be": {nil, []string{"not-being-deleted", "not-the-nodes-own-writer"}},
		"all": {all(exempting("a"), nodeNameAt("spec.node"), ifPresent),
			[]string{"not-exempt", "not-being-deleted", "speaks-for-a-node", "carries-a-node-uid", "not-the-nodes-own-writer"}},
		"with addresses":           {of(holding("self.a")), []string{"not-deleted-by-this-write", "not-the-nodes-own-writer"}},
		"a missing Node is denied": {all(ifPresent, missingDenied), []string{"not-being-deleted", "not-the-nodes-own-writer"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range compile(t, tc.edits...).Entry(service(), nil).MatchConditions {
				got = append(got, c.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}
