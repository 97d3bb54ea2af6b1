// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

// edit changes a policy.
type edit func(*v1alpha1.NodeResourcePolicySpec)

// policy guards CiliumNodes, by their own names and owner references, unless edits say otherwise.
func policy(edits ...edit) *v1alpha1.NodeResourcePolicy {
	p := &v1alpha1.NodeResourcePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "ciliumnodes"},
		Spec:       v1alpha1.NodeResourcePolicySpec{Resource: v1alpha1.GuardedResource{Group: "cilium.io", Resource: "ciliumnodes"}},
	}
	for _, e := range edits {
		e(&p.Spec)
	}
	return p
}

func guards(group, resource string) edit {
	return func(s *v1alpha1.NodeResourcePolicySpec) { s.Resource.Group, s.Resource.Resource = group, resource }
}

func nodeNameAt(path string) edit {
	return func(s *v1alpha1.NodeResourcePolicySpec) {
		s.NodeName.FieldPath, s.Resource.Versions = path, []string{"v2"}
	}
}

func nodeNameIs(expression string) edit {
	return func(s *v1alpha1.NodeResourcePolicySpec) {
		s.NodeName.Expression, s.Resource.Versions = expression, []string{"v2"}
	}
}

func uidIn(annotation string) edit {
	return func(s *v1alpha1.NodeResourcePolicySpec) { s.NodeUID.Annotation = annotation }
}

func ifPresent(s *v1alpha1.NodeResourcePolicySpec)     { s.NodeUID.Presence = v1alpha1.UIDIfPresent }
func missingDenied(s *v1alpha1.NodeResourcePolicySpec) { s.MissingNode = v1alpha1.MissingNodeDeny }
func failing(s *v1alpha1.NodeResourcePolicySpec)       { s.FailurePolicy = v1alpha1.PolicyFail }
func warning(s *v1alpha1.NodeResourcePolicySpec)       { s.Action = v1alpha1.PolicyWarn }
func exempting(users ...string) edit {
	return func(s *v1alpha1.NodeResourcePolicySpec) { s.ExemptUsers = users }
}
func holding(expressions ...string) edit {
	return func(s *v1alpha1.NodeResourcePolicySpec) { s.Addresses = expressions }
}
func all(e ...edit) []edit { return e }
func of(e edit) []edit     { return []edit{e} }
func versions(v ...string) edit {
	return func(s *v1alpha1.NodeResourcePolicySpec) { s.Resource.Versions = v }
}
func repeat(expression string, times int) (list []string) {
	for range times {
		list = append(list, expression)
	}
	return list
}

func compile(t *testing.T, edits ...edit) *nodepolicy.Compiled {
	t.Helper()
	c, err := nodepolicy.Compile(policy(edits...))
	if err != nil {
		t.Fatalf("compiling the policy: %v", err)
	}
	return c
}

func TestCompileFillsInWhatTheCRDDefaults(t *testing.T) {
	given := policy()
	untouched := given.DeepCopy()
	c, err := nodepolicy.Compile(given)
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.NodeResourcePolicySpec{
		Resource: v1alpha1.GuardedResource{
			Group: "cilium.io", Resource: "ciliumnodes", Versions: []string{"*"}, Status: new(true),
		},
		NodeUID:        v1alpha1.NodeUIDSource{Presence: v1alpha1.UIDRequired},
		Action:         v1alpha1.PolicyDeny,
		MissingNode:    v1alpha1.MissingNodeAllow,
		FailurePolicy:  v1alpha1.PolicyIgnore,
		TimeoutSeconds: 2,
		Stale:          v1alpha1.StaleReport,
	}
	if diff := cmp.Diff(want, c.Spec()); diff != "" {
		t.Errorf("specification with defaults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(untouched, given); diff != "" {
		t.Errorf("the given policy was changed:\n%s", diff)
	}
}

func TestCompileKeepsWhatIsSaid(t *testing.T) {
	spec := v1alpha1.NodeResourcePolicySpec{
		Resource:       v1alpha1.GuardedResource{Group: "a.example", Resource: "things", Versions: []string{"v2beta1"}, Status: new(false)},
		NodeName:       v1alpha1.NodeNameSource{FieldPath: "spec.node"},
		NodeUID:        v1alpha1.NodeUIDSource{Presence: v1alpha1.UIDIfPresent, Annotation: "a.example/uid"},
		Action:         v1alpha1.PolicyAudit,
		MissingNode:    v1alpha1.MissingNodeDeny,
		FailurePolicy:  v1alpha1.PolicyIgnore,
		TimeoutSeconds: 3,
		ExemptUsers:    []string{"admin"},
		Stale:          v1alpha1.StaleDelete,
		Addresses:      []string{"self.spec.ips"},
	}
	given := &v1alpha1.NodeResourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: "things"}, Spec: spec}
	c, err := nodepolicy.Compile(given)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&spec, c.Spec()); diff != "" {
		t.Errorf("specification (-want +got):\n%s", diff)
	}
	given.Spec.ExemptUsers[0] = "another"
	if c.Spec().ExemptUsers[0] != "admin" {
		t.Error("a later change of the policy reached the compiled one")
	}
	want := nodeidentity.Policy{
		Name: "things", Presence: v1alpha1.UIDIfPresent, Annotation: "a.example/uid", MissingNode: v1alpha1.MissingNodeDeny,
	}
	if diff := cmp.Diff(want, c.Policy()); diff != "" {
		t.Errorf("policy of the judgement (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(schema.GroupResource{Group: "a.example", Resource: "things"}, c.Resource()); diff != "" {
		t.Errorf("resource (-want +got):\n%s", diff)
	}
	if c.Name() != "things" {
		t.Errorf("name %q; want %q", c.Name(), "things")
	}
}

func TestNamedByMetadata(t *testing.T) {
	for name, tc := range map[string]struct {
		edits []edit
		want  bool
	}{
		"the object's own name": {nil, true},
		"a field":               {of(nodeNameAt("spec.nodeName")), false},
		"an expression":         {of(nodeNameIs("self.metadata.name")), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compile(t, tc.edits...).NamedByMetadata(); got != tc.want {
				t.Errorf("got %t; want %t", got, tc.want)
			}
		})
	}
}

func TestCompileNamesTheMistake(t *testing.T) {
	const (
		forbidden  = v1alpha1.ReasonResourceForbidden
		invalid    = v1alpha1.ReasonPolicyInvalid
		expression = v1alpha1.ReasonExpressionInvalid
	)
	for name, tc := range map[string]struct {
		edits  []edit
		reason v1alpha1.Reason
		parts  []string
	}{
		"the core group":                    {of(guards("", "nodes")), forbidden, []string{"spec.resource", "core group"}},
		"our own group":                     {of(guards("holdfast.dev", "ipallocations")), forbidden, []string{"spec.resource", "could not be repaired"}},
		"admission registration":            {of(guards("admissionregistration.k8s.io", "x")), forbidden, []string{"could not be repaired"}},
		"authentication":                    {of(guards("authentication.k8s.io", "x")), forbidden, []string{"could not be repaired"}},
		"authorization":                     {of(guards("authorization.k8s.io", "x")), forbidden, []string{"could not be repaired"}},
		"custom resource definitions":       {of(guards("apiextensions.k8s.io", "x")), forbidden, []string{"could not be repaired"}},
		"rbac":                              {of(guards("rbac.authorization.k8s.io", "x")), forbidden, []string{"could not be repaired"}},
		"certificate requests":              {of(guards("certificates.k8s.io", "certificatesigningrequests")), forbidden, []string{"could not be repaired"}},
		"deployments":                       {of(guards("apps", "deployments")), forbidden, []string{"could not be repaired"}},
		"endpoints":                         {of(guards("discovery.k8s.io", "endpointslices")), forbidden, []string{"could not be repaired"}},
		"aggregated APIs":                   {of(guards("apiregistration.k8s.io", "apiservices")), forbidden, []string{"could not be repaired"}},
		"certificates":                      {of(guards("cert-manager.io", "certificates")), forbidden, []string{"could not be repaired"}},
		"disruption budgets":                {of(guards("policy", "poddisruptionbudgets")), forbidden, []string{"could not be repaired"}},
		"runtime classes":                   {of(guards("node.k8s.io", "runtimeclasses")), forbidden, []string{"could not be repaired"}},
		"flow control":                      {of(guards("flowcontrol.apiserver.k8s.io", "flowschemas")), forbidden, []string{"could not be repaired"}},
		"the API server's own":              {of(guards("internal.apiserver.k8s.io", "storageversions")), forbidden, []string{"could not be repaired"}},
		"addresses of Services":             {of(guards("networking.k8s.io", "ipaddresses")), forbidden, []string{"could not be repaired"}},
		"priority classes":                  {of(guards("scheduling.k8s.io", "priorityclasses")), forbidden, []string{"could not be repaired"}},
		"events":                            {of(guards("events.k8s.io", "events")), forbidden, []string{"could not be repaired"}},
		"leases":                            {of(guards("coordination.k8s.io", "leases")), forbidden, []string{"spec.resource", "NotReady"}},
		"the state of SR-IOV":               {of(guards("sriovnetwork.openshift.io", "sriovnetworknodestates")), forbidden, []string{"outlive"}},
		"node features":                     {of(guards("nfd.k8s-sigs.io", "nodefeatures")), forbidden, []string{"a Pod owns them"}},
		"forbidden tops other mistakes":     {all(guards("", "nodes"), warning, failing), forbidden, []string{"core group", "failurePolicy Fail"}},
		"CSINodes may not be denied":        {of(guards("storage.k8s.io", "csinodes")), invalid, []string{"spec", "kubelet", "use Warn or Audit"}},
		"Fail goes with Deny only":          {all(warning, failing), invalid, []string{"spec", "failurePolicy Fail goes with action Deny only"}},
		"two places for the node's name":    {all(nodeNameAt("spec.a"), nodeNameIs("self.spec.a")), invalid, []string{"spec.nodeName", "fieldPath or expression"}},
		"a path below metadata":             {of(nodeNameAt("metadata.name")), invalid, []string{"spec.nodeName.fieldPath", "metadata.name"}},
		"metadata itself":                   {of(nodeNameAt("metadata")), invalid, []string{"spec.nodeName", "none of metadata, kind, apiVersion"}},
		"the kind":                          {of(nodeNameAt("kind")), invalid, []string{"spec.nodeName", "none of metadata, kind, apiVersion"}},
		"the API version":                   {of(nodeNameAt("apiVersion")), invalid, []string{"spec.nodeName", "none of metadata, kind, apiVersion"}},
		"the whole spec":                    {of(nodeNameAt("spec")), invalid, []string{"spec.nodeName", "none of metadata, kind, apiVersion"}},
		"the whole status":                  {of(nodeNameAt("status")), invalid, []string{"spec.nodeName", "none of metadata, kind, apiVersion"}},
		"a field in every version":          {all(nodeNameAt("spec.node"), versions("*")), invalid, []string{"spec", "exactly one version in resource.versions"}},
		"a field in no version":             {all(nodeNameAt("spec.node"), versions()), invalid, []string{"spec", "exactly one version in resource.versions"}},
		"a field in two versions":           {all(nodeNameAt("spec.node"), versions("v1", "v2")), invalid, []string{"spec", "exactly one version in resource.versions"}},
		"an expression in every version":    {all(nodeNameIs("self.spec.node"), versions("*")), invalid, []string{"spec", "exactly one version in resource.versions"}},
		"an expression in two versions":     {all(nodeNameIs("self.spec.node"), versions("v1", "*")), invalid, []string{"spec", "exactly one version in resource.versions"}},
		"an indexed path":                   {of(nodeNameAt("spec.nodes[0]")), invalid, []string{"spec.nodeName.fieldPath"}},
		"a subresource":                     {of(guards("a.example", "things/status")), invalid, []string{"spec.resource.resource", "things/status"}},
		"every resource":                    {of(guards("a.example", "*")), invalid, []string{"spec.resource.resource"}},
		"no resource":                       {of(guards("a.example", "")), invalid, []string{"spec.resource.resource"}},
		"every group":                       {of(guards("*", "things")), invalid, []string{"spec.resource.group"}},
		"no version":                        {of(versions("v1", "latest")), invalid, []string{"spec.resource.versions[1]", "latest"}},
		"too many versions":                 {of(versions(repeat("v1", 9)...)), invalid, []string{"spec.resource.versions"}},
		"an annotation that cannot be":      {of(uidIn("no spaces/here")), invalid, []string{"spec.nodeUID.annotation"}},
		"an unknown action":                 {of(func(s *v1alpha1.NodeResourcePolicySpec) { s.Action = "Shout" }), invalid, []string{"spec.action", "Shout", "Deny"}},
		"an unknown presence":               {of(func(s *v1alpha1.NodeResourcePolicySpec) { s.NodeUID.Presence = "Maybe" }), invalid, []string{"spec.nodeUID.presence"}},
		"an unknown missingNode":            {of(func(s *v1alpha1.NodeResourcePolicySpec) { s.MissingNode = "Wait" }), invalid, []string{"spec.missingNode"}},
		"an unknown failurePolicy":          {of(func(s *v1alpha1.NodeResourcePolicySpec) { s.FailurePolicy = "Retry" }), invalid, []string{"spec.failurePolicy"}},
		"an unknown stale action":           {of(func(s *v1alpha1.NodeResourcePolicySpec) { s.Stale = "Hide" }), invalid, []string{"spec.stale"}},
		"too long a time-out":               {of(func(s *v1alpha1.NodeResourcePolicySpec) { s.TimeoutSeconds = 4 }), invalid, []string{"spec.timeoutSeconds", "3"}},
		"a negative time-out":               {of(func(s *v1alpha1.NodeResourcePolicySpec) { s.TimeoutSeconds = -1 }), invalid, []string{"spec.timeoutSeconds"}},
		"a user without a name":             {of(exempting("a", "")), invalid, []string{"spec.exemptUsers[1]"}},
		"too many users":                    {of(exempting(repeat("u", 33)...)), invalid, []string{"spec.exemptUsers"}},
		"an empty address expression":       {of(holding("self.a", "")), invalid, []string{"spec.addresses[1]"}},
		"too many address expressions":      {of(holding(repeat("self.a", 9)...)), invalid, []string{"spec.addresses"}},
		"too long an address expression":    {of(holding(strings.Repeat("a", 1025))), invalid, []string{"spec.addresses[0]"}},
		"too long an expression":            {of(nodeNameIs(strings.Repeat("a", 1025))), invalid, []string{"spec.nodeName.expression"}},
		"an expression that does not parse": {of(nodeNameIs("self.spec.(")), expression, []string{"spec.nodeName.expression", "Syntax error"}},
		"an expression that ends early":     {of(nodeNameIs(`self.a) == "" || ("" `)), expression, []string{"spec.nodeName.expression", "Syntax error"}},
		"an expression that gives a number": {of(nodeNameIs("size(self.spec)")), expression, []string{"spec.nodeName.expression", "int", "string"}},
		"an expression over the request":    {of(nodeNameIs("request.userInfo.username")), expression, []string{"undeclared reference to 'request'"}},
		"an expression over our variables":  {of(nodeNameIs("nodeName")), expression, []string{"undeclared reference to 'nodeName'"}},
		"an unknown function":               {of(nodeNameIs("nodeOf(self)")), expression, []string{"undeclared reference to 'nodeOf'"}},
		"two variables, of 1.33":            {of(nodeNameIs("self.spec.nodes.exists(i, n, n == '') ? '' : 'a'")), expression, []string{"spec.nodeName.expression", "Kubernetes 1.31"}},
		"a list function of 1.34":           {of(holding("self.a.map(b, b.c.map(d, d.ip)).flatten()")), expression, []string{"spec.addresses[0]", "Kubernetes 1.31"}},
		"addresses that are one string":     {of(holding("self.a", "string(self.spec.ip)")), expression, []string{"spec.addresses[1]", "list(string)"}},
		"addresses that are numbers":        {of(holding("[1, 2]")), expression, []string{"spec.addresses[0]", "list(int)"}},
		"addresses that may not be there":   {of(holding("self.?status.?ips")), expression, []string{"spec.addresses[0]", "optional_type"}},
		"two expressions, both named": {all(nodeNameIs("x"), holding("y")), expression,
			[]string{"spec.nodeName.expression", "'x'", "spec.addresses[0]", "'y'"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := nodepolicy.Compile(policy(tc.edits...))
			wantInvalid(t, err, tc.reason, tc.parts)
		})
	}
}

func wantInvalid(t *testing.T, err error, reason v1alpha1.Reason, parts []string) {
	t.Helper()
	var invalid *nodepolicy.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("got error %v; want an InvalidError", err)
	}
	if invalid.Reason != reason {
		t.Errorf("reason %s; want %s (%s)", invalid.Reason, reason, invalid.Message)
	}
	for _, part := range parts {
		if !strings.Contains(invalid.Error(), part) {
			t.Errorf("the message does not name %q: %s", part, invalid.Message)
		}
	}
}

func TestCompileHoldsTheNameToALabel(t *testing.T) {
	for name, tc := range map[string]struct {
		policy string
		valid  bool
	}{
		"63 characters": {strings.Repeat("a", 63), true},
		"64 characters": {strings.Repeat("a", 64), false},
		"a dot":         {"a.b", false},
		"no name":       {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy()
			p.Name = tc.policy
			_, err := nodepolicy.Compile(p)
			if tc.valid {
				if err != nil {
					t.Fatalf("got error %v; want none", err)
				}
				return
			}
			wantInvalid(t, err, v1alpha1.ReasonPolicyInvalid, []string{"metadata.name"})
		})
	}
}

func TestCompileTakes(t *testing.T) {
	for name, edits := range map[string][]edit{
		"CSINodes with Warn":                   all(guards("storage.k8s.io", "csinodes"), warning),
		"Fail with Deny":                       of(failing),
		"leases of another group":              of(guards("a.example", "leases")),
		"nodes of another group":               of(guards("metrics.k8s.io", "nodes")),
		"ResourceSlices by their field":        all(guards("resource.k8s.io", "resourceslices"), nodeNameAt("spec.nodeName")),
		"several versions by name":             of(versions("v1", "v2")),
		"a group whose name ends like one":     of(guards("topology.node.k8s.io", "noderesourcetopologies")),
		"a field of the object itself":         of(nodeNameAt("host")),
		"a field that is a word of CEL":        of(nodeNameAt("spec.namespace.in.true")),
		"a comment behind an expression":       of(nodeNameIs("self.spec.node // the node")),
		"an expression over several lines":     of(nodeNameIs("self.spec.node\n  + // a comment\n  ''\n")),
		"an expression that shadows self":      of(nodeNameIs("self.spec.nodes.filter(self, self != '')[0]")),
		"an expression with quotes":            of(nodeNameIs(`self.spec.node == "a\"b" ? 'it\'s' : r"\d"`)),
		"nested lists":                         of(holding("self.a.map(b, b.c.map(d, d.ip))")),
		"no addresses":                         of(holding("[]")),
		"an empty list if there is no such":    of(holding("self.?status.?ips.orValue([])")),
		"an expression that gives an any type": of(nodeNameIs("self")),
	} {
		t.Run(name, func(t *testing.T) { compile(t, edits...) })
	}
}
