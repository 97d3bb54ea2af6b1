// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/version"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/kubeversion"
)

func isPodReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// definitions: the API server serves the types of Holdfast, with each field of this version. If it does, that is not worth a line.
func definitions(d *Diagnosis, f *Facts, _ time.Time) {
	var missing []string
	if f.Unserved.Records {
		missing = append(missing, inspect.RecordResource)
	}
	if f.Unserved.Policies {
		missing = append(missing, inspect.PolicyResource)
	}
	found, do := "Holdfast is installed in part", "apply its CustomResourceDefinitions (config/crd)"
	switch len(missing) {
	case 0:
		if d.knows("definitions", f.Older) && len(f.Older.Get()) > 0 {
			d.add(failIfSame(f), "definitions", "the CustomResourceDefinitions are older than this plugin, and lack "+strings.Join(f.Older.Get(), ", ")+
				": the API server refuses what a manager of this version writes there", "apply the CustomResourceDefinitions of the manager's version before the manager (config/crd)")
		}
		return
	case 2:
		found, do = "Holdfast is not installed", "install it; kubectl holdfast audit works without it"
	}
	d.add(Fail, "definitions", found+": the API server serves no "+strings.Join(missing, " and no "), do)
}

// manager: replicas that are Ready, on more than one node.
func manager(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "manager replicas"
	if !d.exists(name, f.Manager, "there is no Deployment holdfast-manager in namespace "+f.Namespace, "install Holdfast, or name its namespace (--manager-namespace)") {
		return
	}
	wanted := int32(1)
	if replicas := f.Manager.Get().Spec.Replicas; replicas != nil {
		wanted = *replicas
	}
	ready, nodes := readyReplicas(f)
	look := "look at the pods and their logs: kubectl -n " + f.Namespace + " get pods -o wide"
	switch {
	case wanted == 0:
		d.add(Fail, name, "the Deployment is scaled to 0: nothing is protected by a webhook, judged or released",
			"kubectl -n "+f.Namespace+" scale deployment/holdfast-manager --replicas=2")
	case ready == 0:
		d.add(Fail, name, fmt.Sprintf("none of %d is Ready: nothing is protected by a webhook, judged or released", wanted), look)
	case ready < wanted:
		d.add(Warn, name, fmt.Sprintf("%d of %d are Ready", ready, wanted), look)
	case wanted == 1:
		d.add(Warn, name, "there is one replica only: while it is away, nothing is protected by a webhook or judged", "set replicas to 2 or more")
	case len(nodes) == 1:
		d.add(Warn, name, fmt.Sprintf("all %d are on node %s", ready, sets.List(nodes)[0]), "delete one of the pods once another node has room: the topology spread puts it there")
	default:
		d.ok(name, "%d of %d are Ready, on %d nodes", ready, wanted, len(nodes))
	}
}

// readyReplicas are how many of the manager's pods are Ready, and on which nodes.
func readyReplicas(f *Facts) (ready int32, nodes sets.Set[string]) {
	nodes = sets.New[string]()
	for i := range f.Pods {
		if isPodReady(&f.Pods[i]) && f.Pods[i].DeletionTimestamp == nil {
			ready++
			nodes.Insert(f.Pods[i].Spec.NodeName)
		}
	}
	return ready, nodes
}

func configuration(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "configuration"
	switch c := f.Configuration.Get(); {
	case c == nil:
		d.add(Fail, name, f.Configuration.Why(), "correct the ConfigMap; the manager refuses to start with it")
	case f.Assumed:
		d.add(Warn, name, "assumed: "+f.ConfigurationSource, "read it with an account that may, since other checks go by it")
	default:
		d.ok(name, "evidence %s, unsafe releases %s, audit %s (%s)", c.Evidence, c.UnsafeReleases.Mode, c.Audit.Mode, f.ConfigurationSource)
	}
}

// isShadow: the manager only reports what it would do.
func isShadow(f *Facts) bool {
	return f.Configuration.IsKnown() && f.Configuration.Get().Mode == configv1alpha1.ModeShadow
}

// evidenceIs: the configuration is known, and has that evidence.
func evidenceIs(f *Facts, evidence configv1alpha1.Evidence) bool {
	return f.Configuration.IsKnown() && f.Configuration.Get().Evidence == evidence
}

// mode: a Shadow guards nothing, and may have been forgotten. Guard is expected, and not worth a line.
func mode(d *Diagnosis, f *Facts, _ time.Time) {
	if isShadow(f) {
		d.add(Warn, "mode", "Shadow: nothing is protected, refused, released, repaired or deleted; the manager only reports what it would do",
			"see what it reports (holdfast_shadow_total, the manager's log), and set mode: Guard once you want that done")
	}
}

// failIfSame is Fail, and Warn where the manager is of another version than this plugin, and so may need less.
func failIfSame(f *Facts) Level {
	if !f.Manager.IsKnown() {
		return Fail
	}
	manager, managerErr := version.ParseSemantic(imageTag(f.Manager.Get().Spec.Template.Spec.Containers))
	plugin, pluginErr := version.ParseSemantic(f.Plugin)
	if managerErr == nil && pluginErr == nil && !manager.EqualTo(plugin) {
		return Warn
	}
	return Fail
}

func rights(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "rights of the accounts"
	if f.RightsUnread != "" {
		d.unread(name, f.RightsUnread)
		return
	}
	var missing []string
	for _, r := range f.Rights {
		if !r.Allowed {
			text := fmt.Sprintf("%s may not %s %s", r.Account, r.Verb, r.Resource)
			if r.Namespace != "" {
				text += " in namespace " + r.Namespace
			}
			missing = append(missing, text)
		}
	}
	if len(missing) > 0 {
		d.add(failIfSame(f), name, strings.Join(missing, "; "), "apply the installation's roles and bindings again (config/rbac, config/agent)")
	}
	d.ok(name, "%d rights were asked for, and are given", len(f.Rights))
}

// versions: API server, manager, agents and plugin.
func versions(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "versions"
	if !d.knows(name, f.APIServer) {
		return
	}
	if err := kubeversion.Check(f.APIServer.Get()); err != nil {
		d.add(Fail, name, err.Error(), "upgrade the cluster: the manager does not start on it")
		return
	}
	found, minors := []string{"Kubernetes " + f.APIServer.Get()}, sets.New[string]()
	component := func(name, tag string) {
		found = append(found, name+" "+tag)
		if v, err := version.ParseSemantic(tag); err == nil { // a build of the tree has no version
			minors.Insert(fmt.Sprintf("%d.%d", v.Major(), v.Minor()))
		}
	}
	if f.Manager.IsKnown() {
		component("manager", imageTag(f.Manager.Get().Spec.Template.Spec.Containers))
	}
	if f.Agents.IsKnown() {
		component("agents", imageTag(f.Agents.Get().Spec.Template.Spec.Containers))
	}
	component("plugin", f.Plugin)
	if minors.Len() > 1 {
		d.add(Warn, name, strings.Join(found, ", "), "use the same minor version everywhere; the plugin's decision table is the manager's only then")
	}
	d.ok(name, "%s", strings.Join(found, ", "))
}

func imageTag(containers []corev1.Container) string {
	if len(containers) == 0 {
		return "unknown"
	}
	image, _, _ := strings.Cut(containers[0].Image, "@")
	at := strings.LastIndex(image, ":")
	if at < strings.LastIndex(image, "/") || at < 0 {
		return "unknown"
	}
	return image[at+1:]
}

// reportsNoSandbox is the first kubelet that reports that a pod has no sandbox (internal/release, PodTornDown).
var reportsNoSandbox = version.MajorMinor(1, 37)

// features: one line for what this Kubernetes lacks of what Holdfast can use. If nothing is lacking, that is not worth a line.
func features(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "features"
	if !d.knows(name, f.MutatingPoliciesServed) {
		return
	}
	var lacking []string
	if !f.MutatingPoliciesServed.Get() {
		lacking = append(lacking, "the API server serves no MutatingAdmissionPolicy v1 (on by default from 1.36), so that the webhook alone protects new pods")
	}
	old, nodes := 0, f.Nodes.Get()
	for i := range nodes {
		if v, err := version.ParseGeneric(nodes[i].Status.NodeInfo.KubeletVersion); err == nil && v.LessThan(reportsNoSandbox) {
			old++
		}
	}
	if old > 0 {
		lacking = append(lacking, fmt.Sprintf("%d of %d kubelets are older than %s and do not report that a pod has no sandbox", old, len(nodes), reportsNoSandbox))
	}
	found := strings.Join(lacking, "; ")
	switch {
	case found == "":
	case old > 0 && evidenceIs(f, configv1alpha1.EvidenceKubelet):
		d.add(Warn, name, found, "run agents (evidence Agent): without them a pod that PodGC ended, or that its kubelet rejected, waits until its Node is deleted or tainted out-of-service")
	default:
		d.ok(name, "%s", found)
	}
}

// shared: where kubelet and controller manager are one process, only agents show that a sandbox is gone (docs/decisions/0283).
func shared(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "field manager of the kubelets"
	if !f.Nodes.IsKnown() || !f.Configuration.IsKnown() {
		return // other checks report that
	}
	count, nodes := 0, f.Nodes.Get()
	for i := range nodes {
		// The label that MicroK8s gives its nodes, and the version of k3s.
		if _, micro := nodes[i].Labels["microk8s.io/cluster"]; micro || strings.Contains(nodes[i].Status.NodeInfo.KubeletVersion, "+k3s") {
			count++
		}
	}
	found := fmt.Sprintf("on %d of %d nodes kubelet and controller manager are one program (k3s, MicroK8s) and write under one field manager", count, len(nodes))
	switch {
	case count == 0:
	case evidenceIs(f, configv1alpha1.EvidenceKubelet):
		d.add(Fail, name, found+", and there are no agents (evidence: Kubelet): no report of a kubelet releases an address", "install the agents, and set evidence to Agent")
	default:
		d.ok(name, "%s: agents are queried where an entry is left", found)
	}
}
