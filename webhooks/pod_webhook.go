// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/internal/apijson"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/protection"
)

// PodPath is where the API server sends pods to be protected.
const PodPath = "/mutate-pods"

var errTooManyNetworks = fmt.Errorf("the pod names more than %d networks; only so many definitions are read", podnetwork.MaxDefinitions)

// PodOptions configure the webhook that protects pods.
type PodOptions struct {
	// Rules are what an administrator configured.
	protection.Rules
	// Manages reports whether a backend manages an IPAM. Required.
	Manages protection.Manages
	// Reader reads NetworkAttachmentDefinitions; it may be a cache. Default: the manager's client. Its scheme must know
	// them (k8s.cni.cncf.io/v1).
	Reader client.Reader
}

// PodDefaulter puts finalizer and label on new pods that a backend may give an address to. It never refuses a pod.
type PodDefaulter struct {
	options PodOptions
}

var _ admission.Handler = &PodDefaulter{}

// +kubebuilder:rbac:groups=k8s.cni.cncf.io,resources=network-attachment-definitions,verbs=get;list;watch

// SetupPodWebhook serves the webhook at PodPath of the manager's webhook server.
func SetupPodWebhook(mgr manager.Manager, o PodOptions) error {
	if o.Reader == nil {
		o.Reader = mgr.GetClient()
	}
	defaulter, err := NewPodDefaulter(o)
	if err != nil {
		return err
	}
	mgr.GetWebhookServer().Register(PodPath, serve("pods", maxPodBytes, defaulter))
	return nil
}

// NewPodDefaulter makes the handler; for SetupPodWebhook, and for suites that serve it themselves.
func NewPodDefaulter(o PodOptions) (*PodDefaulter, error) {
	if o.Manages == nil || o.Reader == nil {
		return nil, errors.New("the webhook that protects pods needs to know what the backends manage, and a reader of NetworkAttachmentDefinitions")
	}
	return &PodDefaulter{options: o}, nil
}

// pod is all that the decision needs of a pod: no field of a newer API version can make it undecodable.
type pod struct {
	Metadata struct {
		metav1.ObjectMeta
		// ManagedFields are not decoded: nothing reads them.
		ManagedFields jsontext.Value `json:"managedFields"`
	} `json:"metadata"`
	Spec struct {
		HostNetwork bool `json:"hostNetwork"`
	} `json:"spec"`
}

// Handle protects, or leaves the object byte for byte as it is.
func (d *PodDefaulter) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create || req.Resource.Group != "" || req.Resource.Resource != "pods" || req.SubResource != "" {
		return admission.Allowed("only the creation of pods is of interest")
	}
	var created pod
	if err := apijson.Unmarshal(req.Object.Raw, &created); err != nil {
		metrics.Protections.WithLabelValues(metrics.ProtectionOutcomeFailed).Inc()
		return CouldNotTell(fmt.Errorf("decoding pod %s in namespace %s: %w", req.Name, req.Namespace, err))
	}
	created.Metadata.Namespace = req.Namespace
	facts := protection.FactsOf(&created.Metadata.ObjectMeta, created.Spec.HostNetwork, d.options.Rules)
	if protection.NeedsDefinitions(facts) {
		d.readDefinitions(ctx, facts.Networks)
	}
	decision := protection.Decide(facts, d.options.Manages)
	metrics.Protections.WithLabelValues(outcome(decision)).Inc()
	if detail := log.FromContext(ctx).V(1); detail.Enabled() {
		detail.Info("Decided on a new pod", "generateName", created.Metadata.GenerateName,
			"protect", decision.Protect, "reason", decision.Reason, "networks", messages(decision))
	}

	response := admission.Allowed(string(decision.Reason))
	if decision.Protect {
		if response.Patch = protect(&created.Metadata.ObjectMeta); response.Patch != nil {
			response.PatchType = new(admissionv1.PatchTypeJSONPatch)
		}
		response = response.WithWarnings(warnings(facts, decision)...)
	}
	return response
}

// readDefinitions fills in the definitions, reading each once.
//
// The reader is a cache, which may be behind. "Guarded" and "absent" from the past cost a needless finalizer at most.
// "Unguarded" from the past, of a definition that was given a guarded IPAM a moment ago, costs a missing one: then the
// late protection makes up for it, as soon as the pool shows an entry of a pod that is not protected. A live read here
// would not close the gap, since Multus reads the definition much later, and would cost every guarded pod a round trip.
func (d *PodDefaulter) readDefinitions(ctx context.Context, networks []protection.Network) {
	read := map[client.ObjectKey]protection.Definition{}
	for i := range networks {
		key := client.ObjectKey{Namespace: networks[i].Namespace, Name: networks[i].Name}
		definition, done := read[key]
		if !done {
			definition = d.readDefinition(ctx, key, len(read))
			read[key] = definition
		}
		networks[i].Definition = definition
	}
}

func (d *PodDefaulter) readDefinition(ctx context.Context, key client.ObjectKey, alreadyRead int) protection.Definition {
	if alreadyRead >= podnetwork.MaxDefinitions {
		return protection.Definition{State: protection.Unknown, Err: errTooManyNetworks}
	}
	var definition nadv1.NetworkAttachmentDefinition
	switch err := d.options.Reader.Get(ctx, key, &definition); {
	case apierrors.IsNotFound(err):
		return protection.Definition{State: protection.Absent}
	case err != nil:
		log.FromContext(ctx).Error(err, "A NetworkAttachmentDefinition could not be read; the pod is protected", "definition", key)
		return protection.Definition{State: protection.Unknown, Err: err}
	}
	return protection.Definition{State: protection.Known, Config: definition.Spec.Config}
}

func outcome(decision protection.Decision) string {
	switch decision.Reason {
	case protection.ReasonNetworkGuarded, protection.ReasonClusterNetworkGuarded:
		return metrics.ProtectionOutcomeProtected
	case protection.ReasonMalformedNetworks, protection.ReasonNetworkUnresolved:
		return metrics.ProtectionOutcomeUndecidable
	case protection.ReasonNotGuarded:
		return metrics.ProtectionOutcomeUnguarded
	default:
		return metrics.ProtectionOutcomeSkipped
	}
}

func messages(decision protection.Decision) []string {
	var all []string
	for _, network := range decision.Networks {
		all = append(all, network.Message)
	}
	return all
}

// warnings inform the client that creates a pod of mistakes in the networks that it names: not about reads that failed here, nor about a
// definition that leaves its configuration to the nodes, which is none.
func warnings(facts protection.Facts, decision protection.Decision) []string {
	var all []string
	for _, err := range facts.Malformed {
		all = append(all, err.Error())
	}
	for _, network := range decision.Networks {
		mistake := network.State == protection.Absent ||
			network.State == protection.Known && network.Verdict == protection.Unresolved && !errors.Is(network.Err, podnetwork.ErrNoConfig)
		if mistake {
			all = append(all, network.Message)
		}
	}
	return presentable(all)
}
