// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// setPodDefaults are the defaults of a pod, and what the standard admission plugins and the registry add to it.
func setPodDefaults(o runtime.Object) {
	pod := o.(*corev1.Pod)
	setIfZero(&pod.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	setIfZero(&pod.Spec.DNSPolicy, corev1.DNSClusterFirst)
	setIfZero(&pod.Spec.SchedulerName, corev1.DefaultSchedulerName)
	setIfZero(&pod.Spec.TerminationGracePeriodSeconds, new(int64(corev1.DefaultTerminationGracePeriodSeconds)))
	setIfZero(&pod.Spec.SecurityContext, &corev1.PodSecurityContext{})
	setIfZero(&pod.Spec.EnableServiceLinks, new(corev1.DefaultEnableServiceLinks))
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		setIfZero(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
		setIfZero(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
		setIfZero(&c.ImagePullPolicy, corev1.PullAlways)
	}
}

func setIfZero[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setNamespaceDefaults(o runtime.Object) {
	namespace := o.(*corev1.Namespace)
	if namespace.Labels == nil {
		namespace.Labels = map[string]string{}
	}
	namespace.Labels[corev1.LabelMetadataName] = namespace.Name
}

func setValidatingDefaults(o runtime.Object) {
	c := o.(*admissionregistrationv1.ValidatingWebhookConfiguration)
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		setSelectionDefaults(&w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector)
		setCallDefaults(&w.FailurePolicy, &w.TimeoutSeconds, w.ClientConfig.Service)
		setRuleDefaults(w.Rules)
	}
}

func setMutatingDefaults(o runtime.Object) {
	c := o.(*admissionregistrationv1.MutatingWebhookConfiguration)
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		setSelectionDefaults(&w.MatchPolicy, &w.NamespaceSelector, &w.ObjectSelector)
		setCallDefaults(&w.FailurePolicy, &w.TimeoutSeconds, w.ClientConfig.Service)
		setRuleDefaults(w.Rules)
		setIfZero(&w.ReinvocationPolicy, new(admissionregistrationv1.NeverReinvocationPolicy))
	}
}

func setPolicyDefaults(o runtime.Object) {
	p := o.(*admissionregistrationv1.ValidatingAdmissionPolicy)
	setIfZero(&p.Spec.FailurePolicy, new(admissionregistrationv1.Fail))
	setMatchDefaults(p.Spec.MatchConstraints)
}

func setBindingDefaults(o runtime.Object) {
	setMatchDefaults(o.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding).Spec.MatchResources)
}

func setMatchDefaults(m *admissionregistrationv1.MatchResources) {
	if m == nil {
		return
	}
	setSelectionDefaults(&m.MatchPolicy, &m.NamespaceSelector, &m.ObjectSelector)
	for i := range m.ResourceRules {
		setIfZero(&m.ResourceRules[i].Scope, new(admissionregistrationv1.AllScopes))
	}
	for i := range m.ExcludeResourceRules {
		setIfZero(&m.ExcludeResourceRules[i].Scope, new(admissionregistrationv1.AllScopes))
	}
}

func setSelectionDefaults(policy **admissionregistrationv1.MatchPolicyType, namespaces, objects **metav1.LabelSelector) {
	setIfZero(policy, new(admissionregistrationv1.Equivalent))
	setIfZero(namespaces, &metav1.LabelSelector{})
	setIfZero(objects, &metav1.LabelSelector{})
}

const defaultTimeoutSeconds, defaultServicePort = 10, 443

func setCallDefaults(policy **admissionregistrationv1.FailurePolicyType, timeout **int32, service *admissionregistrationv1.ServiceReference) {
	setIfZero(policy, new(admissionregistrationv1.Fail))
	setIfZero(timeout, new(int32(defaultTimeoutSeconds)))
	if service != nil {
		setIfZero(&service.Port, new(int32(defaultServicePort)))
	}
}

func setRuleDefaults(rules []admissionregistrationv1.RuleWithOperations) {
	for i := range rules {
		setIfZero(&rules[i].Scope, new(admissionregistrationv1.AllScopes))
	}
}
