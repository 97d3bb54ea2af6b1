// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// The limits and patterns of the CRD.
const (
	minTimeoutSeconds   = 1
	maxTimeoutSeconds   = 3
	maxVersions         = 8
	maxExemptUsers      = 32
	maxUserLength       = 512
	maxAddresses        = 8
	maxExpressionLength = 1024
	maxFieldPathLength  = 253
)

var (
	resourcePattern = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	versionPattern  = regexp.MustCompile(`^(\*|v[0-9]+((alpha|beta)[0-9]*)?)$`)
	pathPattern     = regexp.MustCompile(`^(spec|status|data)(\.[a-zA-Z_][a-zA-Z0-9_]*)+$|^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// noStrings are the fields of an object itself that never name a node.
var noStrings = []string{"metadata", "kind", "apiVersion", "spec", "status"}

// mistakes are what is wrong with a specification.
type mistakes struct {
	// forbidden says that the resource may never be guarded.
	forbidden, other field.ErrorList
}

// validate checks a specification that has its defaults. It repeats what the CRD says, because a policy may have been stored
// before a rule was there.
func validate(name string, spec *v1alpha1.NodeResourcePolicySpec) mistakes {
	path := field.NewPath("spec")
	m := mistakes{forbidden: validateNotForbidden(&spec.Resource, path.Child("resource"))}
	for _, message := range validation.IsDNS1123Label(name) {
		m.other = append(m.other, field.Invalid(field.NewPath("metadata", "name"), name,
			"it is a label of the name of the policy's webhook: "+message))
	}
	if len(m.forbidden) == 0 {
		m.other = append(m.other, validateResource(&spec.Resource, path.Child("resource"))...)
	}
	m.other = append(m.other, validateNodeName(&spec.NodeName, path.Child("nodeName"))...)
	m.other = append(m.other, validateOneVersion(spec, path.Child("resource", "versions"))...)
	m.other = append(m.other, validateNodeUID(&spec.NodeUID, path.Child("nodeUID"))...)
	m.other = append(m.other, validateActions(spec, path)...)
	m.other = append(m.other, validateExemptUsers(spec.ExemptUsers, path.Child("exemptUsers"))...)
	m.other = append(m.other, validateAddresses(spec.Addresses, path.Child("addresses"))...)
	return m
}

func validateNotForbidden(r *v1alpha1.GuardedResource, path *field.Path) field.ErrorList {
	if why, forbidden := forbiddenGroups[r.Group]; forbidden {
		return field.ErrorList{forbid(path.Child("group"), "%s (found %q)", why, r.Group)}
	}
	if why, forbidden := forbiddenResources[schema.GroupResource{Group: r.Group, Resource: r.Resource}]; forbidden {
		return field.ErrorList{forbid(path, "%s (found %q of group %q)", why, r.Resource, r.Group)}
	}
	return nil
}

func validateResource(r *v1alpha1.GuardedResource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(r.Group) {
		errs = append(errs, field.Invalid(path.Child("group"), r.Group, message))
	}
	if !resourcePattern.MatchString(r.Resource) || len(r.Resource) > validation.DNS1123LabelMaxLength {
		errs = append(errs, field.Invalid(path.Child("resource"), r.Resource,
			fmt.Sprintf("give the plural name in lower case, without a subresource, at most %d characters", validation.DNS1123LabelMaxLength)))
	}
	if len(r.Versions) > maxVersions {
		errs = append(errs, field.TooMany(path.Child("versions"), len(r.Versions), maxVersions))
	}
	for i, version := range r.Versions {
		if !versionPattern.MatchString(version) {
			errs = append(errs, field.Invalid(path.Child("versions").Index(i), version, `give "*" or a version such as "v1beta1"`))
		}
	}
	return errs
}

func validateNodeName(n *v1alpha1.NodeNameSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n.FieldPath != "" && n.Expression != "" {
		errs = append(errs, forbid(path, "give fieldPath or expression, or neither for metadata.name (found both: %q and %q)",
			n.FieldPath, n.Expression))
	}
	if n.FieldPath != "" && (!pathPattern.MatchString(n.FieldPath) || len(n.FieldPath) > maxFieldPathLength || slices.Contains(noStrings, n.FieldPath)) {
		errs = append(errs, field.Invalid(path.Child("fieldPath"), n.FieldPath,
			"give a dotted path below spec, status or data, for example spec.nodeName, or one field of the object itself that is none of "+
				strings.Join(noStrings, ", ")))
	}
	if len(n.Expression) > maxExpressionLength {
		errs = append(errs, field.TooLong(path.Child("expression"), n.Expression, maxExpressionLength))
	}
	return errs
}

// validateOneVersion wants one version where a field names the node: a field of that name is there in this version, and
// an object of another one, written as it is, would speak for no node. matchPolicy Equivalent converts what is written
// through the others.
func validateOneVersion(spec *v1alpha1.NodeResourcePolicySpec, path *field.Path) field.ErrorList {
	versions := spec.Resource.Versions
	if spec.NodeName.FieldPath == "" && spec.NodeName.Expression == "" || len(versions) == 1 && versions[0] != "*" {
		return nil
	}
	return field.ErrorList{field.Invalid(path, strings.Join(versions, ", "), "with nodeName.fieldPath or nodeName.expression give exactly one version, "+
		"the one that has the field: in another version the field may have another name, and an object written through it would speak for no node")}
}

func validateNodeUID(n *v1alpha1.NodeUIDSource, path *field.Path) field.ErrorList {
	errs := oneOf(path.Child("presence"), n.Presence, v1alpha1.UIDRequired, v1alpha1.UIDIfPresent)
	if n.Annotation != "" {
		for _, message := range validation.IsQualifiedName(n.Annotation) {
			errs = append(errs, field.Invalid(path.Child("annotation"), n.Annotation, message))
		}
	}
	return errs
}

func validateActions(spec *v1alpha1.NodeResourcePolicySpec, path *field.Path) field.ErrorList {
	errs := oneOf(path.Child("action"), spec.Action, v1alpha1.PolicyDeny, v1alpha1.PolicyWarn, v1alpha1.PolicyAudit)
	errs = append(errs, oneOf(path.Child("missingNode"), spec.MissingNode, v1alpha1.MissingNodeAllow, v1alpha1.MissingNodeDeny)...)
	errs = append(errs, oneOf(path.Child("failurePolicy"), spec.FailurePolicy, v1alpha1.PolicyIgnore, v1alpha1.PolicyFail)...)
	errs = append(errs, oneOf(path.Child("stale"), spec.Stale, v1alpha1.StaleReport, v1alpha1.StaleDelete)...)
	if spec.FailurePolicy == v1alpha1.PolicyFail && spec.Action != v1alpha1.PolicyDeny {
		errs = append(errs, forbid(path.Child("failurePolicy"), "%s goes with action %s only: %s and %s never stop a write (found action %q)",
			v1alpha1.PolicyFail, v1alpha1.PolicyDeny, v1alpha1.PolicyWarn, v1alpha1.PolicyAudit, spec.Action))
	}
	resource := schema.GroupResource{Group: spec.Resource.Group, Resource: spec.Resource.Resource}
	if why, never := neverDenied[resource]; never && spec.Action == v1alpha1.PolicyDeny {
		errs = append(errs, forbid(path.Child("action"), "%s (found %q)", why, spec.Action))
	}
	if t := spec.TimeoutSeconds; t < minTimeoutSeconds || t > maxTimeoutSeconds {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), t,
			fmt.Sprintf("give %d to %d seconds", minTimeoutSeconds, maxTimeoutSeconds)))
	}
	return errs
}

func validateExemptUsers(users []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(users) > maxExemptUsers {
		errs = append(errs, field.TooMany(path, len(users), maxExemptUsers))
	}
	for i, user := range users {
		if user == "" || len(user) > maxUserLength || !utf8.ValidString(user) {
			errs = append(errs, field.Invalid(path.Index(i), user, fmt.Sprintf("give a user name of 1 to %d bytes of UTF-8", maxUserLength)))
		}
	}
	return errs
}

func validateAddresses(expressions []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(expressions) > maxAddresses {
		errs = append(errs, field.TooMany(path, len(expressions), maxAddresses))
	}
	for i, text := range expressions {
		switch {
		case text == "":
			errs = append(errs, field.Required(path.Index(i), "give a CEL expression over self"))
		case len(text) > maxExpressionLength:
			errs = append(errs, field.TooLong(path.Index(i), text, maxExpressionLength))
		}
	}
	return errs
}

func oneOf[T ~string](path *field.Path, value T, known ...T) field.ErrorList {
	for _, k := range known {
		if value == k {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, value, known)}
}

func forbid(path *field.Path, format string, args ...any) *field.Error {
	return field.Forbidden(path, fmt.Sprintf(format, args...))
}
