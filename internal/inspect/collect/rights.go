// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/holdfast-dev/holdfast/config"
	"github.com/holdfast-dev/holdfast/internal/inspect/doctor"
)

// rights asks the API server whether the accounts have each right that the installation's roles give them.
func (c *Cluster) rights(ctx context.Context, f *doctor.Facts) error {
	err := c.rightsOf(ctx, f, c.Namespace, managerName, config.ManagerRoles)
	if err == nil && f.Agents.IsKnown() {
		err = c.rightsOf(ctx, f, agentName, agentName, config.AgentRoles)
	}
	return err
}

func (c *Cluster) rightsOf(ctx context.Context, f *doctor.Facts, namespace, account string, roles []byte) error {
	user := "system:serviceaccount:" + namespace + ":" + account
	c.Progress("asking for the rights of %s", user)
	needed, err := neededRights(roles, c.Namespace)
	for i := range needed {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}, ResourceAttributes: &needed[i]}}
		if err := c.Client.Create(ctx, review); err != nil {
			return readError(err, "create", "subjectaccessreviews.authorization.k8s.io", cluster)
		}
		f.Rights = append(f.Rights, doctor.Right{Account: user, Verb: needed[i].Verb, Resource: resourceOf(&needed[i]), Namespace: needed[i].Namespace, Allowed: review.Status.Allowed})
	}
	return err
}

func resourceOf(r *authorizationv1.ResourceAttributes) string {
	name := r.Resource
	if r.Group != "" {
		name += "." + r.Group
	}
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	return strings.TrimSpace(name + " " + r.Name)
}

// neededRights are those that the roles of a file give, one for each verb. The manager's namespace stands for that of the file.
func neededRights(roles []byte, manager string) ([]authorizationv1.ResourceAttributes, error) {
	var needed []authorizationv1.ResourceAttributes
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(roles), len(roles))
	for {
		var role rbacv1.ClusterRole // a Role has the same fields
		switch err := decoder.Decode(&role); {
		case errors.Is(err, io.EOF):
			return needed, nil
		case err != nil:
			return nil, fmt.Errorf("reading the roles of the installation: %w", err)
		}
		if role.Namespace == config.ManagerNamespace {
			role.Namespace = manager
		}
		for _, rule := range role.Rules {
			needed = append(needed, rightsIn(&rule, role.Namespace)...)
		}
	}
}

func rightsIn(rule *rbacv1.PolicyRule, namespace string) []authorizationv1.ResourceAttributes {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var rights []authorizationv1.ResourceAttributes
	for _, full := range rule.Resources {
		resource, subresource, _ := strings.Cut(full, "/")
		for _, name := range names {
			for _, verb := range rule.Verbs {
				rights = append(rights, authorizationv1.ResourceAttributes{Verb: verb, Group: rule.APIGroups[0], Resource: resource, Subresource: subresource, Name: name, Namespace: namespace})
			}
		}
	}
	return rights
}
