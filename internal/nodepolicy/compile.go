// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"net/netip"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
)

// InvalidError says why a policy cannot work.
type InvalidError struct {
	// Reason is PolicyInvalid, ResourceForbidden or ExpressionInvalid.
	Reason v1alpha1.Reason
	// Message names every mistake, with its field path, what was found and what is expected.
	Message string
}

func (e *InvalidError) Error() string { return e.Message }

// Compiled is a policy that can work. It is safe for concurrent use.
type Compiled struct{}

// Compile checks a policy, defaults what is empty, and compiles its expressions. The error is an *InvalidError.
func Compile(p *v1alpha1.NodeResourcePolicy) (*Compiled, error) { panic("not built yet") }

// Name is the policy's name.
func (c *Compiled) Name() string { panic("not built yet") }

// Spec is the policy's specification with every default filled in. It must not be changed.
func (c *Compiled) Spec() *v1alpha1.NodeResourcePolicySpec { panic("not built yet") }

// Policy is what a judgement needs.
func (c *Compiled) Policy() nodeidentity.Policy { panic("not built yet") }

// Resource is the guarded resource.
func (c *Compiled) Resource() schema.GroupResource { panic("not built yet") }

// NamedByMetadata says whether an object's node is its own name, so that the objects of a node can be found by name.
func (c *Compiled) NamedByMetadata() bool { panic("not built yet") }

// Object reads what a judgement needs. The error says which field could not be read, and how.
func (c *Compiled) Object(u *unstructured.Unstructured) (nodeidentity.Object, error) {
	panic("not built yet")
}

// Prefixes reads the addresses that the object holds, an address as a prefix of its full length, without duplicates. A
// string that is neither an address nor a prefix is named in the error, beside those that could be read. A field
// that is not there is no address.
func (c *Compiled) Prefixes(u *unstructured.Unstructured) ([]netip.Prefix, error) {
	panic("not built yet")
}

// Target is where the API server finds the manager's webhook server.
type Target struct {
	// URL is the base ("https://host:port"); empty where Service is given.
	URL string
	// Service has namespace, name and port; the path is the policy's.
	Service *admissionregistrationv1.ServiceReference
}

// PathPrefix is the folder of the webhooks' paths; the policy's name follows.
const PathPrefix = "/validate-node-resource/"

// EntryName is the name of a policy's entry in the webhook configuration.
func EntryName(policy string) string { return policy + ".node-resource.holdfast.dev" }

// Entry is the policy's entry in the webhook configuration. Without a caBundle it fails open whatever the policy says,
// because a webhook that the API server cannot trust would stop every write.
func (c *Compiled) Entry(target Target, caBundle []byte) admissionregistrationv1.ValidatingWebhook {
	panic("not built yet")
}
