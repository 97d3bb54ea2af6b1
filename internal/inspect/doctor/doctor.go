// SPDX-License-Identifier: Apache-2.0

// Package doctor judges, purely, whether an installation works: each check is OK, WARN or FAIL, with what was found and what to do. What
// could not be read is WARN and names the missing right.
package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// Facts are what was read of an installation.
type Facts struct {
	// Namespace is the manager's, Plugin the version of this command, and APIServer that of Kubernetes.
	Namespace, Plugin string
	APIServer         release.Fact[string]
	// Configuration is the manager's; ConfigurationSource is where it was read. Assumed: it is only the defaults.
	Configuration       release.Fact[*configv1alpha1.ManagerConfiguration]
	ConfigurationSource string
	Assumed             bool
	// Manager is its Deployment, Absent where there is none, and Pods its pods.
	Manager release.Fact[*appsv1.Deployment]
	Pods    []corev1.Pod
	// Agents is the DaemonSet of the nodes' agents, AgentPods its pods, and AgentConfiguration what they mount.
	Agents             release.Fact[*appsv1.DaemonSet]
	AgentPods          []corev1.Pod
	AgentConfiguration release.Fact[*configv1alpha1.AgentConfiguration]
	Nodes              release.Fact[[]corev1.Node]
	// Webhooks are all admission webhooks of the API server, ours and others'.
	Webhooks release.Fact[[]Webhook]
	// Certificate is the Secret with the serving certificate.
	Certificate release.Fact[*corev1.Secret]
	// Issuing is what cert-manager has about it; Absent where the API server serves no Certificates.
	Issuing release.Fact[Issuing]
	// Protection is whether the API server protects a pod that names a network, as a dry run shows.
	Protection release.Fact[Protection]
	// Updates are dry runs, on guarded pods, of what removes a finalizer; UpdatesUnread is why there are none, if one failed.
	Updates       []Update
	UpdatesUnread string
	// Unprotected are the pods ("namespace/name") with the label that show an address, are not being deleted and have no finalizer.
	Unprotected []string
	// Rights are those that the accounts need.
	Rights       []Right
	RightsUnread string
	Records      release.Fact[[]v1alpha1.IPAllocation]
	GuardedNodes release.Fact[[]v1alpha1.GuardedNode]
	// Events are those of Holdfast.
	Events release.Fact[[]inspect.Event]
	// DaemonSets are those whose pods may run CNI DEL (unsafeReleases.daemonSets): whether each exists.
	DaemonSets map[string]release.Fact[*appsv1.DaemonSet]
	// AdmissionPolicies are all ValidatingAdmissionPolicies and their bindings, ours and others'.
	AdmissionPolicies release.Fact[AdmissionPolicies]
	// Policies are the NodeResourcePolicies.
	Policies release.Fact[[]v1alpha1.NodeResourcePolicy]
	// Older are the fields of this version that the CustomResourceDefinitions of the cluster lack.
	Older release.Fact[[]string]
	// Unserved are types of ours that the API server does not serve.
	Unserved inspect.Unserved
	// These are whether the API server serves IPPools, NodeSlicePools and MutatingAdmissionPolicy v1.
	PoolsServed, SlicePoolsServed, MutatingPoliciesServed release.Fact[bool]
	// PoolNamespaces are those with IPPools, sorted.
	PoolNamespaces release.Fact[[]string]
}

// AdmissionPolicies are what the API server evaluates itself.
type AdmissionPolicies struct {
	Policies []admissionregistrationv1.ValidatingAdmissionPolicy
	Bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// Webhook is one entry of a webhook configuration.
type Webhook struct {
	// Configuration and Name are those of the object and of the entry.
	Configuration, Name string
	// Service is "namespace/name", or empty for a URL, and Ready how many addresses are behind it; Absent for a URL.
	Service  string
	Ready    release.Fact[int]
	CABundle []byte
	// FailsClosed: failurePolicy Fail. Ours: it is part of Holdfast.
	Mutating, FailsClosed, Ours bool
	// UpdatesPods and CreatesPods: it is called for updates (of pods or pods/status), or creations, of pods.
	UpdatesPods, CreatesPods bool
	// Everywhere: no namespaceSelector, objectSelector or condition excludes anything.
	Everywhere bool
}

// Protection is what a dry run of a pod's creation showed.
type Protection struct{ Finalizer, Label bool }

// Update is a dry run of a patch of a guarded pod, through pods and through pods/status.
type Update struct{ Pod, Refused, StatusRefused string }

// Right is one that an account needs.
type Right struct {
	Account, Verb, Resource, Namespace string
	Allowed                            bool
}

// Level is the outcome of a check.
type Level string

// The levels.
const (
	OK   Level = "OK"
	Warn Level = "WARN"
	Fail Level = "FAIL"
)

// Check is one outcome.
type Check struct {
	// Group is what it is about.
	Group string `json:"group"`
	Name  string `json:"name"`
	Level Level  `json:"level"`
	// Found is what was found, and Do what to do about it; empty for OK.
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
}

// Diagnosis is the outcome of all checks, in the order in which to repair what is broken.
type Diagnosis struct {
	metav1.TypeMeta `json:",inline"`
	Checks          []Check `json:"checks"`
	// group is that of the checks that are being made.
	group string
}

// groups are the checks, by what they are about, in the order in which to repair what is broken.
var groups = []struct {
	name   string
	checks []func(*Diagnosis, *Facts, time.Time)
}{
	{"Installation", []func(*Diagnosis, *Facts, time.Time){definitions, manager, configuration, mode, rights, versions, features, shared}},
	{"Certificates and webhooks", []func(*Diagnosis, *Facts, time.Time){certificate, issuing, webhooks, bootstrap}},
	{"Protection of pods", []func(*Diagnosis, *Facts, time.Time){admissionPolicies, protection, foreign, updates, unprotected}},
	{"Nodes", []func(*Diagnosis, *Facts, time.Time){agents, agentDelays, policies}},
	{"Addresses", []func(*Diagnosis, *Facts, time.Time){ipam, reconciler, held, unclassified}},
}

// Diagnose makes every check.
func Diagnose(f *Facts, now time.Time) *Diagnosis {
	d := &Diagnosis{TypeMeta: inspect.Type("Diagnosis")}
	for _, group := range groups {
		d.group = group.name
		for _, check := range group.checks {
			check(d, f, now)
		}
	}
	return d
}

// Attention is true where a check failed. A warning is no failure.
func (d *Diagnosis) Attention() bool {
	return slices.ContainsFunc(d.Checks, func(c Check) bool { return c.Level == Fail })
}

func (d *Diagnosis) add(level Level, name, found, do string) {
	d.Checks = append(d.Checks, Check{Group: d.group, Name: name, Level: level, Found: found, Do: do})
}

// ok adds the outcome of a check that has found nothing before.
func (d *Diagnosis) ok(name, format string, args ...any) {
	if !d.has(name) {
		d.add(OK, name, fmt.Sprintf(format, args...), "")
	}
}

func (d *Diagnosis) has(name string) bool {
	return slices.ContainsFunc(d.Checks, func(c Check) bool { return c.Name == name })
}

// unread adds a check that could not be made.
func (d *Diagnosis) unread(name, why string) {
	d.add(Warn, name, "could not look: "+why, "look with an account that has the right, or mend what is in the way")
}

// fact is a release.Fact of any type.
type fact interface {
	IsKnown() bool
	IsAbsent() bool
	Why() string
}

// knows reports whether a check can be made, and adds that it could not if a fact is unknown.
func (d *Diagnosis) knows(name string, facts ...fact) bool {
	for _, f := range facts {
		if !f.IsKnown() {
			d.unread(name, f.Why())
			return false
		}
	}
	return true
}

// exists is knows for an object without which the check fails.
func (d *Diagnosis) exists(name string, object fact, missing, do string) bool {
	if object.IsAbsent() {
		d.add(Fail, name, missing, do)
		return false
	}
	return d.knows(name, object)
}

// Tables show the diagnosis, a paragraph for each group.
func (d *Diagnosis) Tables(time.Time) []inspect.Table {
	var tables []inspect.Table
	do := inspect.Table{Heading: "WHAT TO DO", Columns: "CHECK,DO"}
	counts, width := map[Level]int{}, 0
	for i := range d.Checks {
		width = max(width, len(d.Checks[i].Name))
	}
	for i := range d.Checks {
		c := &d.Checks[i]
		if i == 0 || d.Checks[i-1].Group != c.Group {
			tables = append(tables, inspect.Table{Heading: strings.ToUpper(c.Group)})
		}
		counts[c.Level]++
		tables[len(tables)-1].Line("%-4s   %-*s   %s", c.Level, width, c.Name, c.Found)
		if c.Level != OK {
			do.Add(c.Name, c.Do)
		}
	}
	return append(tables, do, inspect.Table{Lines: []string{fmt.Sprintf("%d OK, %d WARN, %d FAIL", counts[OK], counts[Warn], counts[Fail])}})
}
