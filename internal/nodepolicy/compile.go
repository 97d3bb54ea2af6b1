// SPDX-License-Identifier: Apache-2.0

// Package nodepolicy checks and compiles a NodeResourcePolicy: into a form that reads objects, and into the policy's entry in the generated
// ValidatingWebhookConfiguration. It is pure. It uses the CEL environment and the cost limit of the API server, so that an expression which compiles
// here compiles there. The one variable is "self", the whole object.
//
// The match conditions keep these writes away from the webhook. The last row's are allowed because the writer's token names the Node, the others
// for any Node:
//
//	not-exempt                the policy exempts the writer
//	not-being-deleted         the object is being deleted, and the policy knows no addresses
//	not-deleted-by-this-write the object is being deleted, and loses its last finalizer
//	speaks-for-a-node         the object names no node
//	carries-a-node-uid        it carries no UID, carried none before, and need not; a missing Node is allowed
//	not-the-nodes-own-writer  an update leaves the node and the UID that the object carries, and the writer's token names both; with
//	                          failurePolicy Fail also a creation, and an update that brings the UID
//
// An object with more than 16 owner references goes to the webhook in any case.
package nodepolicy

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
)

// InvalidError is why a policy cannot work.
type InvalidError struct {
	// Reason is PolicyInvalid, ResourceForbidden or ExpressionInvalid.
	Reason v1alpha1.Reason
	// Message names every mistake, with its field path, what was found and what is expected.
	Message string
}

func (e *InvalidError) Error() string { return e.Message }

// Compiled is a policy that can work. It is safe for concurrent use.
type Compiled struct {
	name       string
	spec       *v1alpha1.NodeResourcePolicySpec
	nodeName   nodeName
	addresses  []*expression
	conditions []admissionregistrationv1.MatchCondition
}

// Compile checks a policy, defaults what is empty, and compiles its expressions. A mistake in it is an *InvalidError.
func Compile(p *v1alpha1.NodeResourcePolicy) (*Compiled, error) {
	spec, err := complete(p)
	if err != nil {
		return nil, err
	}
	c := &Compiled{name: p.Name, spec: spec}
	if errs := c.compileExpressions(field.NewPath("spec")); len(errs) > 0 {
		return nil, asError(v1alpha1.ReasonExpressionInvalid, errs)
	}
	c.conditions = matchConditions(c.spec)
	if errs := checkConditions(c.conditions, field.NewPath("spec")); len(errs) > 0 {
		return nil, asError(v1alpha1.ReasonExpressionInvalid, errs)
	}
	return c, nil
}

func (c *Compiled) compileExpressions(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var err error
	if source := c.spec.NodeName; source.Expression != "" {
		if c.nodeName.expression, err = compileString(source.Expression); err != nil {
			errs = append(errs, field.Invalid(path.Child("nodeName", "expression"), source.Expression, err.Error()))
		}
	} else {
		c.nodeName.path = splitPath(source.FieldPath)
	}
	c.addresses = make([]*expression, len(c.spec.Addresses))
	for i, text := range c.spec.Addresses {
		if c.addresses[i], err = compileStrings(text); err != nil {
			errs = append(errs, field.Invalid(path.Child("addresses").Index(i), text, err.Error()))
		}
	}
	return errs
}

func asError(reason v1alpha1.Reason, errs field.ErrorList) error {
	return &InvalidError{Reason: reason, Message: errs.ToAggregate().Error()}
}

// Name is the policy's name.
func (c *Compiled) Name() string { return c.name }

// Spec is the policy's specification with every default filled in. It must not be changed.
func (c *Compiled) Spec() *v1alpha1.NodeResourcePolicySpec { return c.spec }

// Policy is what a judgement needs.
func (c *Compiled) Policy() nodeidentity.Policy {
	return nodeidentity.Policy{
		Name:        c.name,
		Presence:    c.spec.NodeUID.Presence,
		Annotation:  c.spec.NodeUID.Annotation,
		MissingNode: c.spec.MissingNode,
	}
}

// Resource is the guarded resource.
func (c *Compiled) Resource() schema.GroupResource {
	return schema.GroupResource{Group: c.spec.Resource.Group, Resource: c.spec.Resource.Resource}
}

// NamedByMetadata reports whether an object's node is its own name, so that the objects of a node can be found by name.
func (c *Compiled) NamedByMetadata() bool {
	return len(c.nodeName.path) == 0 && c.nodeName.expression == nil
}
