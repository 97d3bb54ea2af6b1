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

// groups are the checks, by what they are about, in the order in which to mend what is broken.
var groups = []struct {
	name   string
	checks []func(*Diagnosis, *Facts, time.Time)
}{
	{"Installation", []func(*Diagnosis, *Facts, time.Time){definitions, manager, configuration, mode, rights, versions, features, shared}},
	{"Certificates and webhooks", []func(*Diagnosis, *Facts, time.Time){certificate, issuing, webhooks, bootstrap}},
	{"Protection of pods", []func(*Diagnosis, *Facts, time.Time){admissionPolicies, protection, foreign, updates, unprotected}},
	{"Nodes", []func(*Diagnosis, *Facts, time.Time){agents, policies}},
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

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// definitions: both types of ours are served. That they are is not worth a line.
func definitions(d *Diagnosis, f *Facts, _ time.Time) {
	var missing []string
	if f.Unserved.Records {
		missing = append(missing, inspect.RecordResource)
	}
	if f.Unserved.Policies {
		missing = append(missing, inspect.PolicyResource)
	}
	if len(missing) == 0 {
		return
	}
	found, do := "Holdfast is installed in part", "apply its CustomResourceDefinitions (config/crd)"
	if len(missing) == 2 {
		found, do = "Holdfast is not installed", "install it; kubectl holdfast audit works without it"
	}
	d.add(Fail, "definitions", found+": the API server serves no "+strings.Join(missing, " and no "), do)
}

// manager: replicas that are Ready, on more than one node.
func manager(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "manager replicas"
	switch {
	case f.Manager.IsAbsent():
		d.add(Fail, name, "there is no Deployment holdfast-manager in namespace "+f.Namespace, "install Holdfast, or name its namespace (--manager-namespace)")
		return
	case !f.Manager.IsKnown():
		d.unread(name, f.Manager.Why())
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
	case len(nodes) == 1 && wanted > 1:
		d.add(Warn, name, fmt.Sprintf("all %d are on node %s", ready, sets.List(nodes)[0]), "delete one of the pods once another node has room: the topology spread puts it there")
	default:
		d.ok(name, "%d of %d are Ready, on %d nodes", ready, wanted, len(nodes))
	}
}

// readyReplicas are how many of the manager's pods are Ready, and on which nodes.
func readyReplicas(f *Facts) (ready int32, nodes sets.Set[string]) {
	nodes = sets.New[string]()
	for i := range f.Pods {
		if podReady(&f.Pods[i]) && f.Pods[i].DeletionTimestamp == nil {
			ready++
			nodes.Insert(f.Pods[i].Spec.NodeName)
		}
	}
	return ready, nodes
}

func configuration(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "configuration"
	switch {
	case !f.Configuration.IsKnown():
		d.add(Fail, name, f.Configuration.Why(), "correct the ConfigMap; the manager refuses to start with it")
	case f.Assumed:
		d.add(Warn, name, "assumed: "+f.ConfigurationSource, "read it with an account that may, since other checks go by it")
	default:
		c := f.Configuration.Get()
		d.ok(name, "evidence %s, unsafe releases %s, audit %s (%s)", c.Evidence, c.UnsafeReleases.Mode, c.Audit.Mode, f.ConfigurationSource)
	}
}

// isShadow: what the manager would do it only reports.
func isShadow(f *Facts) bool {
	return f.Configuration.IsKnown() && f.Configuration.Get().Mode == configv1alpha1.ModeShadow
}

// mode: a shadow guards nothing, which somebody may have forgotten. A guard is what is expected, and not worth a line.
func mode(d *Diagnosis, f *Facts, _ time.Time) {
	if isShadow(f) {
		d.add(Warn, "mode", "Shadow: nothing is protected, refused, released, repaired or deleted; the manager only reports what it would do",
			"see what it reports (holdfast_shadow_total, the manager's log), and set mode: Guard once you want that done")
	}
}

// ipam: the pools are there, and the DaemonSets by which CNI DEL is known.
func ipam(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "IPAM"
	switch {
	case !f.PoolsServed.IsKnown():
		d.unread(name, f.PoolsServed.Why())
		return
	case !f.PoolsServed.Get():
		d.add(Fail, name, "the API server serves no IPPools: nothing is known of any address, and every pod that may hold one stays protected", "install whereabouts")
		return
	}
	for _, daemonSet := range sets.List(sets.KeySet(f.DaemonSets)) {
		if f.DaemonSets[daemonSet].IsAbsent() {
			d.add(Warn, name, "there is no DaemonSet "+daemonSet+", by which the nodes' own CNI DEL is known", "name the one that runs CNI DEL in unsafeReleases.daemonSets; with mode Deny every DEL of another account is refused")
			return
		}
	}
	switch {
	case !f.SlicePoolsServed.IsKnown():
		d.unread(name, f.SlicePoolsServed.Why())
	case f.SlicePoolsServed.Get():
		d.ok(name, "IPPools are served")
	default:
		d.ok(name, "IPPools are served, and NodeSlicePools are not (whereabouts before 0.9): there are no slices of nodes to keep")
	}
}

// reconciler: whereabouts' own reconciler, or anybody else, was refused, or warned.
func reconciler(d *Diagnosis, f *Facts, now time.Time) {
	const name, within = "unsafe releases", time.Hour
	if !d.knows(name, f.Events) {
		return
	}
	count, last := int32(0), inspect.Event{}
	for _, e := range f.Events.Get() {
		if e.Reason == "UnsafeReleaseRefused" && now.Sub(e.Last) <= within {
			count += max(e.Count, 1)
			if e.Last.After(last.Last) {
				last = e
			}
		}
	}
	mode := configv1alpha1.ReleaseMode("unknown")
	if f.Configuration.IsKnown() {
		mode = f.Configuration.Get().UnsafeReleases.Mode
	}
	if count > 0 {
		d.add(Warn, name, fmt.Sprintf("%d removals within the last hour were not safe (mode %s); the last: %s", count, mode, last.Note),
			"see who it was: whereabouts' own reconciler frees addresses in use (set its schedule to never, or unsafeReleases.mode to Deny); a person, or a node's CNI that is not known (unsafeReleases.daemonSets)")
		return
	}
	d.ok(name, "none within the last hour (mode %s)", mode)
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
	found := []string{"Kubernetes " + f.APIServer.Get()}
	var tags []string
	if f.Manager.IsKnown() {
		tags = append(tags, imageTag(f.Manager.Get().Spec.Template.Spec.Containers))
		found = append(found, "manager "+tags[0])
	}
	if f.Agents.IsKnown() {
		tags = append(tags, imageTag(f.Agents.Get().Spec.Template.Spec.Containers))
		found = append(found, "agents "+tags[len(tags)-1])
	}
	tags = append(tags, f.Plugin)
	found = append(found, "plugin "+f.Plugin)
	if skewed(tags) {
		d.add(Warn, name, strings.Join(found, ", "), "use the same minor version everywhere; the plugin's decision table is the manager's only then")
		return
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

// skewed says whether two of the versions are of different minor versions. What is no version (a build of the tree) is not compared.
func skewed(tags []string) bool {
	minors := sets.New[string]()
	for _, tag := range tags {
		if v, err := version.ParseSemantic(tag); err == nil {
			minors.Insert(fmt.Sprintf("%d.%d", v.Major(), v.Minor()))
		}
	}
	return minors.Len() > 1
}
