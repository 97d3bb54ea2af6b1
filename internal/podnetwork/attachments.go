// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// NetworksAnnotation lists the networks that a pod requests besides the cluster's own.
	NetworksAnnotation = nadv1.NetworkAttachmentAnnot
	// DefaultNetworkAnnotation names the one network that takes the place of the cluster's own (Multus:
	// docs/configuration.md, "Specify default cluster network in Pod annotations").
	DefaultNetworkAnnotation = "v1.multus-cni.io/default-network"
	// StatusAnnotation is where Multus writes the addresses that a pod was given.
	StatusAnnotation = nadv1.NetworkStatusAnnot

	// DefaultMultusNamespace is where Multus looks for a default network that is named without a namespace, unless its
	// multusNamespace is set.
	DefaultMultusNamespace = "kube-system"
)

// Attachment is one network that a pod requests.
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

// Attachments reads from a pod's annotations the networks that it requests, in the order default network, then networks as
// listed. The pod's namespace completes the names in NetworksAnnotation, multusNamespace (empty: DefaultMultusNamespace)
// the one in DefaultNetworkAnnotation.
//
// Each error in malformed names an annotation, or an element of it, that cannot be read; a caller that decides something must
// treat it as an unknown network. An absent or empty NetworksAnnotation is no network and no error, as in
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

// parse reads one annotation: "[namespace/]name[@interface], ..." or a JSON list of selection elements. One that is too large, or has
// too many elements, is malformed as a whole, and is not looked at any further.
func parse(annotation, value, namespace string) (attachments []Attachment, malformed []error) {
	elements, err := elementsOf(value)
	if err != nil {
		return nil, []error{fmt.Errorf("annotation %s cannot be read: %w", annotation, err)}
	}
	for i, element := range elements {
		if element.Namespace == "" {
			element.Namespace = namespace
		}
		if err := validateNames(&element); err != nil {
			malformed = append(malformed, fmt.Errorf("annotation %s, element %d: %w", annotation, i, err))
			continue
		}
		attachments = append(attachments, Attachment{
			Namespace: element.Namespace, Name: element.Name, Interface: element.InterfaceRequest,
		})
	}
	return attachments, malformed
}

// elementsOf bounds the work before any of it is done: both counts come from one pass over a text of bounded size.
func elementsOf(value string) ([]nadv1.NetworkSelectionElement, error) {
	if len(value) > MaxNetworksBytes {
		return nil, fmt.Errorf("it has %d bytes, expected at most %d", len(value), MaxNetworksBytes)
	}
	if !strings.ContainsAny(value, "[{\"") {
		return commaElements(value)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(value), &raw); err != nil {
		return nil, fmt.Errorf("%w; expected [namespace/]name[@interface] separated by commas, or a JSON list of network selection elements", err)
	}
	if err := checkCount(len(raw)); err != nil {
		return nil, err
	}
	elements := make([]nadv1.NetworkSelectionElement, len(raw))
	for i := range raw {
		if string(raw[i]) == "null" {
			return nil, fmt.Errorf("element %d of the list is null, expected a network selection element", i)
		}
		if err := json.Unmarshal(raw[i], &elements[i]); err != nil {
			return nil, fmt.Errorf("element %d of the list: %w; expected a network selection element", i, err)
		}
	}
	return elements, nil
}

func checkCount(elements int) error {
	if elements > MaxElements {
		return fmt.Errorf("it names %d networks, expected at most %d", elements, MaxElements)
	}
	return nil
}

// commaElements reads the form without JSON as the client of the definitions does, which compiles a regular expression for each
// part of each element: one bad element spoils all.
func commaElements(value string) ([]nadv1.NetworkSelectionElement, error) {
	if err := checkCount(strings.Count(value, ",") + 1); err != nil {
		return nil, err
	}
	var elements []nadv1.NetworkSelectionElement
	for item := range strings.SplitSeq(value, ",") {
		element, err := commaElement(strings.TrimSpace(item))
		if err != nil {
			return nil, fmt.Errorf("%w; expected [namespace/]name[@interface] separated by commas, or a JSON list of network selection elements", err)
		}
		elements = append(elements, element)
	}
	return elements, nil
}

func commaElement(item string) (element nadv1.NetworkSelectionElement, err error) {
	name := item
	if before, after, found := strings.Cut(item, "/"); found {
		element.Namespace, name = strings.TrimSpace(before), after
	}
	name, iface, _ := strings.Cut(name, "@")
	element.Name, element.InterfaceRequest = strings.TrimSpace(name), strings.TrimSpace(iface)
	for _, part := range []string{element.Namespace, element.Name, element.InterfaceRequest} {
		if part != "" && !isLabel(part) {
			return element, fmt.Errorf("%.80q is no name; expected lower-case letters, digits and, inside, \"-\"", part)
		}
	}
	return element, nil
}

// isLabel: letters, digits and, inside, "-". Multus sets no limit to the length.
func isLabel(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c != '-' || i == 0 || i == len(text)-1) {
			return false
		}
	}
	return text != ""
}

// validateNames refuses what can be no object's name: the JSON form takes any string, the comma-separated one an empty name.
func validateNames(element *nadv1.NetworkSelectionElement) error {
	if element.Name == "" {
		return errors.New("no network is named")
	}
	if problems := validation.IsDNS1123Subdomain(element.Name); len(problems) > 0 {
		return fmt.Errorf("%.80q is no name of a NetworkAttachmentDefinition: %s", element.Name, problems[0])
	}
	if problems := validation.IsDNS1123Label(element.Namespace); len(problems) > 0 {
		return fmt.Errorf("%.80q is no name of a namespace: %s", element.Namespace, problems[0])
	}
	return nil
}
