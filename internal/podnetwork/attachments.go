// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// NetworksAnnotation lists the networks that a pod asks for besides the cluster's own.
	NetworksAnnotation = nadv1.NetworkAttachmentAnnot
	// DefaultNetworkAnnotation names the one network that takes the place of the cluster's own (Multus:
	// docs/configuration.md, "Specify default cluster network in Pod annotations").
	DefaultNetworkAnnotation = "v1.multus-cni.io/default-network"
	// StatusAnnotation is where Multus writes the addresses that a pod was given.
	StatusAnnotation = nadv1.NetworkStatusAnnot

	// DefaultMultusNamespace is where Multus looks for a default network that is named without a namespace, unless its
	// multusNamespace says otherwise.
	DefaultMultusNamespace = "kube-system"
)

// Attachment is one network that a pod asks for.
type Attachment struct {
	// Namespace and Name are those of the NetworkAttachmentDefinition; both are valid object names.
	Namespace, Name string
	// Interface is the requested interface name; empty leaves it to the meta plugin (net1, net2, ...).
	Interface string
	// Default is true for the network that takes the place of the cluster's own.
	Default bool
}

// String gives "namespace/name".
func (a Attachment) String() string { return a.Namespace + "/" + a.Name }

// Attachments reads from a pod's annotations the networks that it asks for, in the order default network, then networks as
// listed. The pod's namespace completes the names in NetworksAnnotation, multusNamespace (empty: DefaultMultusNamespace)
// the one in DefaultNetworkAnnotation.
//
// Each error in malformed names an annotation, or an element of it, that cannot be read; whoever decides something must
// take it for a network of which nothing is known. An absent or empty NetworksAnnotation is no network and no error, as in
// Multus; an empty DefaultNetworkAnnotation is malformed, as in Multus.
func Attachments(annotations map[string]string, namespace, multusNamespace string) (attachments []Attachment, malformed []error) {
	if multusNamespace == "" {
		multusNamespace = DefaultMultusNamespace
	}
	if value, set := annotations[DefaultNetworkAnnotation]; set {
		found, errs := parse(DefaultNetworkAnnotation, value, multusNamespace)
		if n := len(found) + len(errs); n != 1 {
			errs = append(errs, fmt.Errorf("annotation %s names %d networks, expected exactly one", DefaultNetworkAnnotation, n))
		}
		for i := range found {
			found[i].Default = true
		}
		attachments, malformed = append(attachments, found...), append(malformed, errs...)
	}
	if value := annotations[NetworksAnnotation]; value != "" {
		found, errs := parse(NetworksAnnotation, value, namespace)
		attachments, malformed = append(attachments, found...), append(malformed, errs...)
	}
	return attachments, malformed
}

// parse reads one annotation: "[namespace/]name[@interface], ..." or a JSON list of selection elements.
func parse(annotation, value, namespace string) (attachments []Attachment, malformed []error) {
	if err := rejectNullElements(value); err != nil {
		return nil, []error{fmt.Errorf("annotation %s cannot be read: %w", annotation, err)}
	}
	elements, err := nadutils.ParseNetworkAnnotation(value, namespace)
	if err != nil {
		return nil, []error{fmt.Errorf("annotation %s cannot be read: %w; expected [namespace/]name[@interface] "+
			"separated by commas, or a JSON list of network selection elements", annotation, err)}
	}
	for i, element := range elements {
		if err := validateNames(element); err != nil {
			malformed = append(malformed, fmt.Errorf("annotation %s, element %d: %w", annotation, i, err))
			continue
		}
		attachments = append(attachments, Attachment{
			Namespace: element.Namespace, Name: element.Name, Interface: element.InterfaceRequest,
		})
	}
	return attachments, malformed
}

// rejectNullElements keeps from the client's parser what it dereferences unseen: null in a JSON list.
func rejectNullElements(value string) error {
	if !strings.ContainsAny(value, "[{\"") {
		return nil
	}
	var elements []*struct{}
	if err := json.Unmarshal([]byte(value), &elements); err != nil {
		return err
	}
	for i, element := range elements {
		if element == nil {
			return fmt.Errorf("element %d of the list is null, expected a network selection element", i)
		}
	}
	return nil
}

// validateNames refuses what can be no object's name: the JSON form takes any string, the comma-separated one an empty name.
func validateNames(element *nadv1.NetworkSelectionElement) error {
	if element.Name == "" {
		return errors.New("no network is named")
	}
	if problems := validation.IsDNS1123Subdomain(element.Name); len(problems) > 0 {
		return fmt.Errorf("%q is no name of a NetworkAttachmentDefinition: %s", element.Name, problems[0])
	}
	if problems := validation.IsDNS1123Label(element.Namespace); len(problems) > 0 {
		return fmt.Errorf("%q is no name of a namespace: %s", element.Namespace, problems[0])
	}
	return nil
}
