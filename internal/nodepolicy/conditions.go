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
	"github.com/holdfast-dev/holdfast/internal/kubeversion"
)

// The names of the match conditions.
const (
	notExempt         = "not-exempt"
	notBeingDeleted   = "not-being-deleted"
	notDeletedByIt    = "not-deleted-by-this-write"
	speaksForANode    = "speaks-for-a-node"
	carriesANodeUID   = "carries-a-node-uid"
	notTheNodesWriter = "not-the-nodes-own-writer"
)

// matchConditions say which writes have to be judged; all of them have to hold. They are evaluated in the API server, with no
// webhook alive, and an error in one is a failed call. So no field is read before it is known to be there and to
// be of the right type; what has another type than expected goes to the webhook, which says so. No loop runs over what a
// writer can make long. An error of the policy's
// own expression cannot be caught in CEL: a write for which it fails cannot be judged, and failurePolicy decides.
func matchConditions(spec *v1alpha1.NodeResourcePolicySpec) []admissionregistrationv1.MatchCondition {
	var conditions []admissionregistrationv1.MatchCondition
	add := func(name, expression string) {
		conditions = append(conditions, admissionregistrationv1.MatchCondition{Name: name, Expression: expression})
	}
	if len(spec.ExemptUsers) > 0 {
		add(notExempt, "!(has(request.userInfo.username) && request.userInfo.username in ["+quoteAll(spec.ExemptUsers)+"])")
	}
	if len(spec.Addresses) == 0 {
		add(notBeingDeleted, isNotBeingDeleted)
	} else {
		add(notDeletedByIt, isNotBeingDeleted+" || "+keepsAFinalizer)
	}
	if spec.NodeName.FieldPath != "" || spec.NodeName.Expression != "" {
		add(speaksForANode, "[object].all(self, "+speaks(spec.NodeName)+")")
	}
	if spec.NodeUID.Presence == v1alpha1.UIDIfPresent && spec.MissingNode == v1alpha1.MissingNodeAllow {
		add(carriesANodeUID, objects+".exists(self, self == null || "+carriesUID(spec.NodeUID.Annotation)+")")
	}
	add(notTheNodesWriter, notTheWriter(spec))
	return conditions
}

// maxOwners is how many owner references of an object the conditions look at; an object with more goes to the webhook. The
// writer decides how many there are, and the API server spends time on them that grows faster than their number (cel-go
// searches all that it has evaluated whenever it counts the cost), before the webhook's timeout begins.
const maxOwners = 16

const (
	nodeNameExtra = "authentication.kubernetes.io/node-name"
	nodeUIDExtra  = "authentication.kubernetes.io/node-uid"

	isNotBeingDeleted = `request.operation == "CREATE" || !has(object.metadata.deletionTimestamp) || object.metadata.deletionTimestamp == null`
	// keepsAFinalizer is false where an object that is being deleted is gone with the write. What is no list goes to the webhook.
	keepsAFinalizer = "has(object.metadata.finalizers) && (type(object.metadata.finalizers) != list || size(object.metadata.finalizers) > 0)"

	// objects are the object after the write and, if there is one, before it.
	objects     = `(request.operation == "CREATE" ? [object] : [object, oldObject])`
	owners      = "self.metadata.ownerReferences"
	annotations = "self.metadata.annotations"
	isNode      = `has(r.apiVersion) && r.apiVersion == "v1" && has(r.kind) && r.kind == "Node"`
	isTheTokens = "has(r.name) && r.name == nodeName && has(r.uid) && r.uid == nodeUID"
)

// notTheWriter is false for a writer whose token was bound to the node for which the object speaks, and to the UID that
// it carries, before and after the write: such a write would be allowed if the Node were read, unless the Node was
// replaced while the token lives on, and the sweep is behind that. That a write leaves the UID as it is does not
// suffice: so does every write of a stale object. The name comes last, because the policy's expression may fail.
func notTheWriter(spec *v1alpha1.NodeResourcePolicySpec) string {
	return fmt.Sprintf(`!(has(request.userInfo.extra)
&& %[1]q in request.userInfo.extra && size(request.userInfo.extra[%[1]q]) == 1
&& %[2]q in request.userInfo.extra && size(request.userInfo.extra[%[2]q]) == 1
&& request.userInfo.extra[%[1]q].all(nodeName, request.userInfo.extra[%[2]q].all(nodeUID, nodeUID != ""
&& %[5]s.all(self, self != null
&& %[3]s
&& %[4]s))))`, nodeNameExtra, nodeUIDExtra, carriesTheTokensUID(spec.NodeUID), namesTheTokensNode(spec.NodeName), objects)
}

func carriesTheTokensUID(source v1alpha1.NodeUIDSource) string {
	required := source.Presence == v1alpha1.UIDRequired
	switch key := strconv.Quote(source.Annotation); {
	case source.Annotation != "" && required:
		return fmt.Sprintf("has(%[1]s) && type(%[1]s) == map && %[2]s in %[1]s && %[1]s[%[2]s] == nodeUID", annotations, key)
	case source.Annotation != "":
		return fmt.Sprintf("(!has(%[1]s) || type(%[1]s) == map && (!(%[2]s in %[1]s) || %[1]s[%[2]s] == nodeUID))", annotations, key)
	}
	all := fmt.Sprintf("type(%[1]s) == list && size(%[1]s) <= %[4]d && %[1]s.all(r, type(r) == map && (!(%[2]s) || %[3]s))",
		owners, isNode, isTheTokens, maxOwners)
	if required {
		return fmt.Sprintf("has(%[1]s) && %[2]s && %[1]s.exists(r, %[3]s)", owners, all, isNode)
	}
	return fmt.Sprintf("(!has(%s) || %s)", owners, all)
}

func namesTheTokensNode(source v1alpha1.NodeNameSource) string {
	switch {
	case source.Expression != "":
		return embed(source.Expression) + " == nodeName"
	case source.FieldPath != "":
		return atPath(splitPath(source.FieldPath), "type(%s) == map && ", "== nodeName")
	default:
		return "has(self.metadata.name) && self.metadata.name == nodeName"
	}
}

// speaks says that self names a node, or that it has something else there.
func speaks(source v1alpha1.NodeNameSource) string {
	if source.Expression != "" {
		return embed(source.Expression) + ` != ""`
	}
	return atPath(splitPath(source.FieldPath), "type(%s) != map || ", `!= ""`)
}

// carriesUID says that self carries a UID of some Node, or has something else there.
func carriesUID(annotation string) string {
	if annotation != "" {
		return fmt.Sprintf("has(%[1]s) && (type(%[1]s) != map || %[2]q in %[1]s)", annotations, annotation)
	}
	return fmt.Sprintf("has(%[1]s) && (type(%[1]s) != list || size(%[1]s) > %[3]d || %[1]s.exists(r, type(r) != map || %[2]s))",
		owners, isNode, maxOwners)
}

// embed puts the policy's expression on lines of its own, so that a comment at its end does not swallow what follows. It
// is whole by itself, and knows no variable but self, since it was compiled alone before.
func embed(expression string) string { return "(\n" + expression + "\n)" }

// atPath tests the value at a path below self. What is missing or null fails the test; whether it also fails if there is
// no object on the way is what typeTest says. The fields are indexed, because a field's name may be a word of CEL.
func atPath(path []string, typeTest, test string) string {
	value, expression := selfName, ""
	for i, name := range path {
		key := strconv.Quote(name)
		expression += fmt.Sprintf("(%[1]s in %[2]s && %[2]s[%[1]s] != null && (", key, value)
		value += "[" + key + "]"
		if i < len(path)-1 {
			expression += fmt.Sprintf(typeTest, value)
		}
	}
	return expression + value + " " + test + strings.Repeat("))", len(path))
}

// quoteAll writes strings as CEL literals, which have Go's escapes.
func quoteAll(values []string) string {
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = strconv.Quote(value)
	}
	return strings.Join(quoted, ", ")
}

// conditionCompiler is what the oldest supported API server checks the match conditions of a new webhook with.
var conditionCompiler = sync.OnceValue(func() plugincel.Compiler {
	return plugincel.NewCompiler(environment.MustBaseEnvSet(kubeversion.Expressions))
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
