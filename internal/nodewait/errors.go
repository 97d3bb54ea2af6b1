// SPDX-License-Identifier: Apache-2.0

package nodewait

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/internal/served"
)

// describe is a read, as a permission names it, for example `get nodenetworkconfigs.acn.azure.com "aks-0" in namespace kube-system`.
func (t target) describe(verb string) string {
	s := verb + " " + t.GroupResource().String()
	if t.name != "" {
		s += fmt.Sprintf(" %q", t.name)
	}
	return s + t.scope()
}

func (t target) scope() string {
	switch {
	case !t.Namespaced:
		return ""
	case t.namespace == "":
		return " in all namespaces"
	default:
		return " in namespace " + t.namespace
	}
}

// failed is the obstacle of a read that failed.
func (t target) failed(verb string, err error) *obstacle {
	switch {
	case apierrors.IsForbidden(err):
		return &obstacle{
			fmt.Sprintf("this account may not %s: %s", t.describe(verb), err),
			fmt.Sprintf("Grant it the verb %s on %s%s.", verb, t.GroupResource(), t.scope()),
		}
	case apierrors.IsNotFound(err):
		return notServed(t.GroupResource(), []string{t.Version})
	default:
		return unreadable("could not "+t.describe(verb), err)
	}
}

func notServed(resource schema.GroupResource, versions []string) *obstacle {
	what := fmt.Sprintf("the API server serves no %s", resource)
	if !slices.Contains(versions, served.AnyVersion) {
		what += fmt.Sprintf(" in version %s", strings.Join(versions, ", "))
	}
	return &obstacle{what, "Install its CustomResourceDefinition, or correct the plural name, the version and the group."}
}

func unreadable(what string, err error) *obstacle {
	advice := "Look at the API server, and at the connection to it from this node."
	if errors.Is(err, context.DeadlineExceeded) {
		return &obstacle{fmt.Sprintf("%s: the API server did not respond within %s", what, requestTimeout), advice}
	}
	if apierrors.IsUnauthorized(err) {
		advice = "The API server does not know this account: look at the pod's token, or at the kubeconfig."
	}
	return &obstacle{fmt.Sprintf("%s: %s", what, withoutPort(err)), advice}
}

// withoutPort is the error without the local port, which differs at each try.
func withoutPort(err error) string {
	var broken *net.OpError
	if !errors.As(err, &broken) || broken.Addr == nil {
		return err.Error()
	}
	return fmt.Sprintf("%s %s: %s", broken.Op, broken.Addr, broken.Err)
}
