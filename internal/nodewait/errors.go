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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/internal/served"
)

// request is one read, as a person who grants permissions has to know it.
type request struct {
	verb string
	schema.GroupVersionResource
	namespaced      bool
	namespace, name string
}

// String is, for example, `get nodenetworkconfigs.acn.azure.com "aks-0" in namespace kube-system`.
func (r request) String() string {
	s := r.verb + " " + r.GroupResource().String()
	if r.name != "" {
		s += fmt.Sprintf(" %q", r.name)
	}
	return s + r.scope()
}

func (r request) scope() string {
	switch {
	case !r.namespaced:
		return ""
	case r.namespace == "":
		return " in all namespaces"
	default:
		return " in namespace " + r.namespace
	}
}

// failed is the reason to wait when the request failed.
func (r request) failed(err error) *obstacle {
	switch {
	case apierrors.IsForbidden(err):
		return &obstacle{
			fmt.Sprintf("this account may not %s: %s", r, err),
			fmt.Sprintf("Grant it the verb %s on %s%s.", r.verb, r.GroupResource(), r.scope()),
		}
	case apierrors.IsNotFound(err):
		return notServed(r.GroupResource(), []string{r.Version})
	default:
		return unreadable("could not "+r.String(), err)
	}
}

func notServed(resource schema.GroupResource, versions []string) *obstacle {
	what := fmt.Sprintf("the API server serves no %s", resource)
	if !slices.Contains(versions, served.AnyVersion) {
		what += fmt.Sprintf(" in version %s", strings.Join(versions, ", "))
	}
	return &obstacle{what, "Install its CustomResourceDefinition, or correct the plural name, the version and the group."}
}

// isAbsent says whether a read of one object found that it is not there. The same status comes for a resource that the
// API server does not serve (any more), where nothing is known of the object.
func isAbsent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func unreadable(what string, err error) *obstacle {
	advice := "Look at the API server, and at the way to it from this node."
	if errors.Is(err, context.DeadlineExceeded) {
		return &obstacle{fmt.Sprintf("%s: the API server did not answer within %s", what, requestTimeout), advice}
	}
	if apierrors.IsUnauthorized(err) {
		advice = "The API server does not know this account: look at the pod's token, or at the kubeconfig."
	}
	return &obstacle{fmt.Sprintf("%s: %s", what, withoutPort(err)), advice}
}

// withoutPort is the error without our end of the connection, which differs at each try.
func withoutPort(err error) string {
	var broken *net.OpError
	if !errors.As(err, &broken) || broken.Addr == nil {
		return err.Error()
	}
	return fmt.Sprintf("%s %s: %s", broken.Op, broken.Addr, broken.Err)
}
