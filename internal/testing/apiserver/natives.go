// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
)

// Natives are the kinds of Kubernetes itself that the product and the simulated world use.
func Natives() []*Kind {
	plain := strategy{unconditional: true}
	workload := strategy{unconditional: true, generation: true}
	return []*Kind{
		native(&corev1.Pod{}, "pods", true, true, strategy{graceful: true, unconditional: true, generation: true, returnsDeleted: true,
			setDefaults: setPodDefaults, selectable: podFields}),
		native(&corev1.Node{}, "nodes", false, true, strategy{unconditional: true, statusOnCreate: true, selectable: nodeFields}),
		native(&corev1.Namespace{}, "namespaces", false, true, strategy{unconditional: true, setDefaults: setNamespaceDefaults}),
		native(&corev1.ConfigMap{}, "configmaps", true, false, plain),
		native(&corev1.Secret{}, "secrets", true, false, plain),
		native(&corev1.ServiceAccount{}, "serviceaccounts", true, false, plain),
		native(&eventsv1.Event{}, "events", true, false, strategy{unconditional: true, createOnUpdate: true}),
		native(&coordinationv1.Lease{}, "leases", true, false, strategy{createOnUpdate: true}),
		native(&appsv1.StatefulSet{}, "statefulsets", true, true, workload),
		native(&appsv1.DaemonSet{}, "daemonsets", true, true, workload),
		native(&apiextensionsv1.CustomResourceDefinition{}, "customresourcedefinitions", false, true, strategy{generation: true}),
		native(&admissionregistrationv1.ValidatingWebhookConfiguration{}, "validatingwebhookconfigurations", false, false, strategy{generation: true, setDefaults: setValidatingDefaults}),
		native(&admissionregistrationv1.MutatingWebhookConfiguration{}, "mutatingwebhookconfigurations", false, false, strategy{generation: true, setDefaults: setMutatingDefaults}),
		native(&admissionregistrationv1.ValidatingAdmissionPolicy{}, "validatingadmissionpolicies", false, true, strategy{generation: true, setDefaults: setPolicyDefaults}),
		native(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, "validatingadmissionpolicybindings", false, false, strategy{generation: true, setDefaults: setBindingDefaults}),
	}
}

func podFields(o object) fields.Set {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(o, path...)
		return value
	}
	hostNetwork, _, _ := unstructured.NestedBool(o, "spec", "hostNetwork")
	return fields.Set{
		"spec.nodeName": text("spec", "nodeName"), "spec.restartPolicy": text("spec", "restartPolicy"),
		"spec.schedulerName": text("spec", "schedulerName"), "spec.serviceAccountName": text("spec", "serviceAccountName"),
		"spec.hostNetwork": strconv.FormatBool(hostNetwork),
		"status.phase":     text("status", "phase"), "status.podIP": text("status", "podIP"), "status.nominatedNodeName": text("status", "nominatedNodeName"),
	}
}

func nodeFields(o object) fields.Set {
	unschedulable, _, _ := unstructured.NestedBool(o, "spec", "unschedulable")
	return fields.Set{"spec.unschedulable": strconv.FormatBool(unschedulable)}
}
