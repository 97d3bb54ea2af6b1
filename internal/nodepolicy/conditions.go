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
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
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

// matchConditions select the writes that have to be judged; all of them have to hold. An error in one is a failed call, so each field is read only
// once it is known to exist and to have its type; another type goes to the webhook, which reports it. No loop runs over what a writer can make
// long. An error of the policy's own expression cannot be caught in CEL: failurePolicy decides.
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

// maxOwners is how many owner references of an object the conditions look at; an object with more goes to the webhook. The time that cel-go needs
// grows faster than their number, and the webhook's timeout does not bound it.
const maxOwners = 16

const (
	isNotBeingDeleted = `request.operation == "CREATE" || !has(object.metadata.deletionTimestamp) || object.metadata.deletionTimestamp == null`
	// keepsAFinalizer is false where the write removes an object that is being deleted. What is no list goes to the webhook.
	keepsAFinalizer = "has(object.metadata.finalizers) && (type(object.metadata.finalizers) != list || size(object.metadata.finalizers) > 0)"

	// objects are the object after the write and, if there is one, before it.
	objects     = `(request.operation == "CREATE" ? [object] : [object, oldObject])`
	owners      = "self.metadata.ownerReferences"
	annotations = "self.metadata.annotations"
	isNode      = `has(r.apiVersion) && r.apiVersion == "v1" && has(r.kind) && r.kind == "Node"`
	isTheTokens = "has(r.name) && r.name == nodeName && has(r.uid) && r.uid == nodeUID"
)

// notTheWriter is false for an update by a writer with a token that is bound to the object's node and to the UID that it carries, before and
// after the write. A creation, where oldObject is null, is judged, and so is an update that brings the UID: a token outlives its Node, as long as its pod does.
// With failurePolicy Fail both pass, or a node's agent could not start before a manager does, which may need it for its network. An unchanged UID
// alone does not suffice: a write of a stale object leaves it too. The name comes last, because the policy's expression may fail.
func notTheWriter(spec *v1alpha1.NodeResourcePolicySpec) string {
	both, andBringsNone := "[object, oldObject]", bringsNone(spec.NodeUID)
	if spec.FailurePolicy == v1alpha1.PolicyFail {
		both, andBringsNone = objects, ""
	}
	return fmt.Sprintf(`!(has(request.userInfo.extra)
&& %[1]q in request.userInfo.extra && size(request.userInfo.extra[%[1]q]) == 1
&& %[2]q in request.userInfo.extra && size(request.userInfo.extra[%[2]q]) == 1
&& request.userInfo.extra[%[1]q].all(nodeName, request.userInfo.extra[%[2]q].all(nodeUID, nodeUID != ""
&& %[5]s.all(self, self != null
&& %[3]s
&& %[4]s)))%[6]s)`, serviceaccount.NodeNameKey, serviceaccount.NodeUIDKey, carriesTheTokensUID(spec.NodeUID), namesTheTokensNode(spec.NodeName), both, andBringsNone)
}

// bringsNone is false where only the object after the write carries a UID. Where one is required, both do.
func bringsNone(source v1alpha1.NodeUIDSource) string {
	if source.Presence == v1alpha1.UIDRequired {
		return ""
	}
	carries := carriesUID(source.Annotation)
	return fmt.Sprintf("\n&& ([oldObject].exists(self, %[1]s) || ![object].exists(self, %[1]s))", carries)
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

// speaks reports that self names a node, or that it has something else there.
func speaks(source v1alpha1.NodeNameSource) string {
	if source.Expression != "" {
		return embed(source.Expression) + ` != ""`
	}
	return atPath(splitPath(source.FieldPath), "type(%s) != map || ", `!= ""`)
}

// carriesUID reports that self carries a UID of some Node, or has something else there.
func carriesUID(annotation string) string {
	if annotation != "" {
		return fmt.Sprintf("has(%[1]s) && (type(%[1]s) != map || %[2]q in %[1]s)", annotations, annotation)
	}
	return fmt.Sprintf("has(%[1]s) && (type(%[1]s) != list || size(%[1]s) > %[3]d || %[1]s.exists(r, type(r) != map || %[2]s))",
		owners, isNode, maxOwners)
}

// embed puts the policy's expression on lines of its own, because it may end in a comment. It was compiled alone before, with self as its only
// variable.
func embed(expression string) string { return "(\n" + expression + "\n)" }

// atPath tests the value at a path below self. What is missing or null fails the test; typeTest decides where a part of the path is no object.
// The fields are indexed, because a field's name may be a keyword of CEL.
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

// checkConditions compiles the conditions as the API server will. Only the expression of the node's name can fail here.
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
