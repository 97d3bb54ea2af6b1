// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/inspect/doctor"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Fits reads a manifest, and what doctor.Fits needs of the cluster.
func (c *Cluster) Fits(ctx context.Context, source string, manifest []byte) (*doctor.Facts, doctor.Planned, error) {
	f := &doctor.Facts{Namespace: c.Namespace}
	planned, err := readManifest(f, source, manifest)
	if err != nil {
		return nil, planned, err
	}
	if f.APIServer = release.FactOf(c.serverVersion()); !f.APIServer.IsKnown() {
		return nil, planned, fmt.Errorf("the API server does not respond, so that nothing can be checked: %s", f.APIServer.Why())
	}
	f.MutatingPoliciesServed = release.FactOf(c.servesMutatingPolicies(ctx))
	f.Nodes = release.FactOf(c.Nodes(ctx))
	c.ipam(ctx, f)
	return f, planned, ctx.Err()
}

// readManifest reads the manager's configuration and the objects that matter for Fits.
func readManifest(f *doctor.Facts, source string, manifest []byte) (planned doctor.Planned, err error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), len(manifest)+1)
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(object); {
		case errors.Is(err, io.EOF) && !f.Configuration.IsKnown():
			return planned, fmt.Errorf("%s has no ConfigMap with the manager's configuration: expected what kustomize build or helm template prints of Holdfast", source)
		case errors.Is(err, io.EOF):
			return planned, nil
		case err != nil:
			return planned, fmt.Errorf("reading the manifest %s: %w", source, err)
		}
		if err := plan(f, &planned, source, object); err != nil {
			return planned, err
		}
	}
}

// plan takes from an object of the manifest what matters.
func plan(f *doctor.Facts, planned *doctor.Planned, source string, object *unstructured.Unstructured) error {
	switch object.GetKind() {
	case "ConfigMap":
		text, _, _ := unstructured.NestedString(object.Object, "data", "config.yaml")
		if !strings.Contains(text, "kind: ManagerConfiguration") {
			return nil
		}
		parsed, err := config.ParseManager(source, []byte(text))
		if err != nil {
			return err
		}
		f.Configuration, f.ConfigurationSource = release.Known(parsed), "ConfigMap "+object.GetName()+" of "+source
	case "DaemonSet":
		planned.Agents = planned.Agents || object.GetName() == agentName
	case "MutatingAdmissionPolicy":
		policy := &admissionregistrationv1.MutatingAdmissionPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy); err != nil {
			return fmt.Errorf("reading the MutatingAdmissionPolicy %s of %s: %w", object.GetName(), source, err)
		}
		planned.AdmissionPolicy, planned.Exempt = true, exempt(policy)
	case "MutatingWebhookConfiguration":
		planned.FailClosed = planned.FailClosed || failClosed(object)
	case "ValidatingAdmissionPolicy":
		if object.GetName() == "holdfast-foreign-removals" {
			planned.CNIAccounts = cniAccounts(object)
		}
	}
	return nil
}

// failClosed: the webhook that protects pods is to be called, or no pod that names a network is created.
func failClosed(configuration *unstructured.Unstructured) bool {
	webhooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	return slices.ContainsFunc(webhooks, func(w any) bool {
		webhook, _ := w.(map[string]any)
		return webhook["name"] == "protect.holdfast.dev" && webhook["failurePolicy"] == string(admissionregistrationv1.Fail)
	})
}

// exempt are the namespaces that a policy leaves out by name.
func exempt(policy *admissionregistrationv1.MutatingAdmissionPolicy) (names []string) {
	constraints := policy.Spec.MatchConstraints
	if constraints == nil || constraints.NamespaceSelector == nil {
		return nil
	}
	for _, expression := range constraints.NamespaceSelector.MatchExpressions {
		if expression.Key == corev1.LabelMetadataName && expression.Operator == metav1.LabelSelectorOpNotIn {
			names = append(names, expression.Values...)
		}
	}
	return names
}

// cniAccounts is the expression of the variable with the accounts.
func cniAccounts(policy *unstructured.Unstructured) string {
	variables, _, _ := unstructured.NestedSlice(policy.Object, "spec", "variables")
	for i := range variables {
		variable, _ := variables[i].(map[string]any)
		if expression, is := variable["expression"].(string); is && variable["name"] == "cniAccounts" {
			return expression
		}
	}
	return ""
}
