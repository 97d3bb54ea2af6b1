// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// The names of the match conditions.
const (
	notExempt         = "not-exempt"
	notBeingDeleted   = "not-being-deleted"
	speaksForANode    = "speaks-for-a-node"
	carriesANodeUID   = "carries-a-node-uid"
	notTheNodesWriter = "not-the-nodes-own-writer"
)

// matchConditions say which writes have to be judged; all of them have to hold. They are evaluated in the API server, with no
// webhook alive, and an error in one is a failed call. So no field is read before it is known to be there and to
// be of the right type; what has another type than expected goes to the webhook, which says so. An error in an
// expression of the policy itself cannot be caught in CEL: failurePolicy decides, as it does when the webhook meets it.
func matchConditions(spec *v1alpha1.NodeResourcePolicySpec) []admissionregistrationv1.MatchCondition {
	var conditions []admissionregistrationv1.MatchCondition
	add := func(name, expression string) {
		conditions = append(conditions, admissionregistrationv1.MatchCondition{Name: name, Expression: expression})
	}
	g := generator{spec}
	if len(spec.ExemptUsers) > 0 {
		add(notExempt, "!(has(request.userInfo.username) && request.userInfo.username in ["+quoteAll(spec.ExemptUsers)+"])")
	}
	add(notBeingDeleted, "!has(object.metadata.deletionTimestamp) || object.metadata.deletionTimestamp == null")
	if spec.NodeName.FieldPath != "" || spec.NodeName.Expression != "" {
		add(speaksForANode, g.speaks("object"))
	}
	if spec.NodeUID.Presence == v1alpha1.UIDIfPresent && spec.MissingNode == v1alpha1.MissingNodeAllow {
		add(carriesANodeUID, g.carriesUID("object"))
	}
	add(notTheNodesWriter, g.notTheNodesWriter())
	return conditions
}

// generator writes CEL over the variables of a match condition.
type generator struct {
	spec *v1alpha1.NodeResourcePolicySpec
}

const (
	nodeNameExtra = `request.userInfo.extra["authentication.kubernetes.io/node-name"]`
	nodeUIDExtra  = `request.userInfo.extra["authentication.kubernetes.io/node-uid"]`
	tokenNodeName = nodeNameExtra + `[0]`
	tokenNodeUID  = nodeUIDExtra + `[0]`
	isNode        = `(has(r.apiVersion) && r.apiVersion == "v1" && has(r.kind) && r.kind == "Node")`
)

// notTheNodesWriter is false for a writer whose token was bound to the node for which the object speaks, and to the
// UID that the object carries, before and after the write. Whatever the webhook would then read of the Node, it would find
// that UID, or find the Node replaced while the token lives on; the sweep is behind that. A write that leaves the UID as it
// is does not suffice: a stale object is just that.
func (g generator) notTheNodesWriter() string {
	return fmt.Sprintf(`!(has(request.userInfo.extra)
&& "authentication.kubernetes.io/node-name" in request.userInfo.extra && size(%[1]s) == 1
&& "authentication.kubernetes.io/node-uid" in request.userInfo.extra && size(%[2]s) == 1 && %[2]s[0] != ""
&& %[3]s
&& (request.operation == "CREATE" || (oldObject != null
&& %[4]s)))`, nodeNameExtra, nodeUIDExtra, g.isTheTokens("object"), g.isTheTokens("oldObject"))
}

// isTheTokens says that the object speaks for the token's node, and carries the token's UID.
func (g generator) isTheTokens(object string) string {
	return g.namesTheTokensNode(object) + "\n&& " + g.carriesTheTokensUID(object)
}

func (g generator) namesTheTokensNode(object string) string {
	switch source := g.spec.NodeName; {
	case source.Expression != "":
		return overSelf(object, source.Expression, "== "+tokenNodeName)
	case source.FieldPath != "":
		return atPath(object, splitPath(source.FieldPath), "&&", "==", "== "+tokenNodeName)
	default:
		return fmt.Sprintf("has(%[1]s.metadata.name) && %[1]s.metadata.name == %[2]s", object, tokenNodeName)
	}
}

func (g generator) carriesTheTokensUID(object string) string {
	required := g.spec.NodeUID.Presence == v1alpha1.UIDRequired
	if key := g.spec.NodeUID.Annotation; key != "" {
		annotations := object + ".metadata.annotations"
		equal := fmt.Sprintf("%s in %s && %s[%s] == %s", strconv.Quote(key), annotations, annotations, strconv.Quote(key), tokenNodeUID)
		if required {
			return fmt.Sprintf("has(%[1]s) && type(%[1]s) == map && %[2]s", annotations, equal)
		}
		return fmt.Sprintf("(!has(%[1]s) || type(%[1]s) == map && (!(%[2]s in %[1]s) || %[3]s))", annotations, strconv.Quote(key), equal)
	}
	references := object + ".metadata.ownerReferences"
	all := fmt.Sprintf("type(%[1]s) == list && %[1]s.all(r, type(r) == map && (!%[2]s || "+
		"has(r.name) && r.name == %[3]s && has(r.uid) && r.uid == %[4]s))", references, isNode, tokenNodeName, tokenNodeUID)
	if required {
		return fmt.Sprintf("has(%[1]s) && %[2]s && %[1]s.exists(r, %[3]s)", references, all, isNode)
	}
	return fmt.Sprintf("(!has(%s) || %s)", references, all)
}

// speaks says that the object names a node, or that it has something else there.
func (g generator) speaks(object string) string {
	if text := g.spec.NodeName.Expression; text != "" {
		return overSelf(object, text, `!= ""`)
	}
	return atPath(object, splitPath(g.spec.NodeName.FieldPath), "||", "!=", `!= ""`)
}

// carriesUID says that the object carries a UID of some Node, or has something else there.
func (g generator) carriesUID(object string) string {
	if key := g.spec.NodeUID.Annotation; key != "" {
		return fmt.Sprintf("has(%[1]s.metadata.annotations) && (type(%[1]s.metadata.annotations) != map || %[2]s in %[1]s.metadata.annotations)",
			object, strconv.Quote(key))
	}
	references := object + ".metadata.ownerReferences"
	return fmt.Sprintf("has(%[1]s) && (type(%[1]s) != list || %[1]s.exists(r, type(r) != map || %[2]s))", references, isNode)
}

// overSelf applies an expression over self to an object. The expression stands on lines of its own, so that a comment
// at its end does not swallow what follows; it is whole by itself, since it was compiled alone before.
func overSelf(object, text, test string) string {
	return fmt.Sprintf("[%s].all(%s, (\n%s\n) %s)", object, selfName, text, test)
}

// atPath tests the value at a path. What is missing or null fails the test; what is no object on the way is tested as
// typeTest says: combined by "||" and "!=" it passes, by "&&" and "==" it fails.
func atPath(object string, path []string, combine, typeTest, test string) string {
	value := object
	var b strings.Builder
	for i, name := range path {
		key := strconv.Quote(name)
		fmt.Fprintf(&b, `(%[1]s in %[2]s && %[2]s[%[1]s] != null && `, key, value)
		value += "[" + key + "]"
		if i < len(path)-1 {
			fmt.Fprintf(&b, `(type(%s) %s map %s `, value, typeTest, combine)
		}
	}
	b.WriteString(value + " " + test)
	b.WriteString(strings.Repeat(")", 2*len(path)-1))
	return b.String()
}

func quoteAll(values []string) string {
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = strconv.Quote(value)
	}
	return strings.Join(quoted, ", ")
}

// conditionCompiler is what the API server checks the match conditions of a new webhook with.
var conditionCompiler = sync.OnceValue(func() plugincel.Compiler {
	return plugincel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

// checkConditions compiles the conditions as the API server will. What fails here can only come from the expression of the
// node's name.
func checkConditions(conditions []admissionregistrationv1.MatchCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range conditions {
		condition := matchconditions.MatchCondition(conditions[i])
		result := conditionCompiler().CompileCELExpression(&condition,
			plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions)
		if result.Error != nil {
			errs = append(errs, field.Invalid(path.Child("nodeName", "expression"), condition.Expression, fmt.Sprintf(
				"the match condition %q that is made of it does not compile: %v", condition.Name, result.Error)))
		}
	}
	return errs
}
