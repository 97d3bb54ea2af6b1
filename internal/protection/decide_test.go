// SPDX-License-Identifier: Apache-2.0

package protection

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

const (
	guardedConfig   = `{"type":"macvlan","ipam":{"type":"whereabouts"}}`
	unguardedConfig = `{"type":"macvlan","ipam":{"type":"host-local"}}`
)

func whereabouts(ipam podnetwork.IPAM) bool { return ipam.Type == "whereabouts" }

func network(d Definition) Network {
	return Network{Attachment: podnetwork.Attachment{Namespace: "apps", Name: "blue"}, Definition: d}
}

func known(config string) Network { return network(Definition{State: Known, Config: config}) }
func readLive(config string) Network {
	return network(Definition{State: Known, Config: config, Live: true})
}

func TestDecide(t *testing.T) {
	malformed := []error{errors.New("broken")}
	cases := map[string]struct {
		facts       Facts
		protect     bool
		reason      v1alpha1.Reason
		unprotected bool // ProvablyUnguarded
	}{
		"a pod that names no network":                     {reason: ReasonNotGuarded},
		"a guarded network":                               {facts: Facts{Networks: []Network{known(guardedConfig)}}, protect: true, reason: ReasonNetworkGuarded},
		"a guarded network, read live":                    {facts: Facts{Networks: []Network{readLive(guardedConfig)}}, protect: true, reason: ReasonNetworkGuarded},
		"an unguarded network from a cache":               {facts: Facts{Networks: []Network{known(unguardedConfig)}}, reason: ReasonNotGuarded},
		"an unguarded network, read live":                 {facts: Facts{Networks: []Network{readLive(unguardedConfig)}}, reason: ReasonNotGuarded, unprotected: true},
		"a plugin without an IPAM, read live":             {facts: Facts{Networks: []Network{readLive(`{"type":"macvlan"}`)}}, reason: ReasonNotGuarded, unprotected: true},
		"one guarded network among unguarded ones":        {facts: Facts{Networks: []Network{readLive(unguardedConfig), readLive(guardedConfig)}}, protect: true, reason: ReasonNetworkGuarded},
		"one cached network among those read live":        {facts: Facts{Networks: []Network{readLive(unguardedConfig), known(unguardedConfig)}}, reason: ReasonNotGuarded},
		"a guarded plugin behind unguarded ones":          {facts: Facts{Networks: []Network{known(`{"plugins":[{"type":"tuning"},{"type":"macvlan","ipam":{"type":"whereabouts"}}]}`)}}, protect: true, reason: ReasonNetworkGuarded},
		"no definition yet":                               {facts: Facts{Networks: []Network{network(Definition{State: Absent})}}, protect: true, reason: ReasonNetworkUnresolved},
		"no definition by a live read":                    {facts: Facts{Networks: []Network{network(Definition{State: Absent, Live: true})}}, protect: true, reason: ReasonNetworkUnresolved},
		"a definition that could not be read":             {facts: Facts{Networks: []Network{network(Definition{State: Unknown, Err: errors.New("timeout")})}}, protect: true, reason: ReasonNetworkUnresolved},
		"a definition that was not read":                  {facts: Facts{Networks: []Network{network(Definition{})}}, protect: true, reason: ReasonNetworkUnresolved},
		"an unguarded config in an unknown state":         {facts: Facts{Networks: []Network{network(Definition{Config: unguardedConfig, Live: true})}}, protect: true, reason: ReasonNetworkUnresolved},
		"a broken config":                                 {facts: Facts{Networks: []Network{readLive(`{"type":`)}}, protect: true, reason: ReasonNetworkUnresolved},
		"an empty config":                                 {facts: Facts{Networks: []Network{readLive("")}}, protect: true, reason: ReasonNetworkUnresolved},
		"a malformed annotation":                          {facts: Facts{Malformed: malformed}, protect: true, reason: ReasonMalformedNetworks},
		"a malformed annotation beside an unguarded one":  {facts: Facts{Malformed: malformed, Networks: []Network{readLive(unguardedConfig)}}, protect: true, reason: ReasonMalformedNetworks},
		"an unresolved network beside an unguarded one":   {facts: Facts{Networks: []Network{readLive(unguardedConfig), network(Definition{State: Absent, Live: true})}}, protect: true, reason: ReasonNetworkUnresolved},
		"the cluster network is guarded":                  {facts: Facts{ClusterNetworkGuarded: true}, protect: true, reason: ReasonClusterNetworkGuarded},
		"the cluster network beside an unguarded network": {facts: Facts{ClusterNetworkGuarded: true, Networks: []Network{readLive(unguardedConfig)}}, protect: true, reason: ReasonClusterNetworkGuarded},
		"host network":                                    {facts: Facts{HostNetwork: true, ClusterNetworkGuarded: true, Networks: []Network{known(guardedConfig)}}, reason: ReasonHostNetwork},
		"a mirror pod":                                    {facts: Facts{MirrorPod: true, ClusterNetworkGuarded: true, Networks: []Network{known(guardedConfig)}}, reason: ReasonMirrorPod},
		"an excluded namespace":                           {facts: Facts{ExcludedNamespace: true, ClusterNetworkGuarded: true, Malformed: malformed}, reason: ReasonNamespaceExcluded},
		"a pod that opted out":                            {facts: Facts{OptedOut: true, ClusterNetworkGuarded: true, Networks: []Network{known(guardedConfig)}}, reason: ReasonOptedOut},
		"a namespace that opted out":                      {facts: Facts{NamespaceOptedOut: true, Networks: []Network{known(guardedConfig)}}, reason: ReasonOptedOut},
		"an opt-out proves nothing of the networks":       {facts: Facts{OptedOut: true, Networks: []Network{readLive(guardedConfig)}}, reason: ReasonOptedOut},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.facts, whereabouts)
			if got.Protect != tc.protect || got.Reason != tc.reason {
				t.Errorf("Decide: got %v %s, want %v %s", got.Protect, got.Reason, tc.protect, tc.reason)
			}
			if got := ProvablyUnguarded(tc.facts, whereabouts); got != tc.unprotected {
				t.Errorf("ProvablyUnguarded: got %v, want %v", got, tc.unprotected)
			}
		})
	}
}

func TestJudgementsSayWhatTheyRestOn(t *testing.T) {
	cases := map[string]struct {
		network Network
		want    string
		verdict Verdict
	}{
		"guarded":    {known(guardedConfig), "NetworkAttachmentDefinition apps/blue uses the IPAM whereabouts", Guarded},
		"unguarded":  {known(unguardedConfig), "no backend manages an IPAM of NetworkAttachmentDefinition apps/blue", Unguarded},
		"absent":     {network(Definition{State: Absent}), "NetworkAttachmentDefinition apps/blue does not exist (yet)", Unresolved},
		"unread":     {network(Definition{}), "NetworkAttachmentDefinition apps/blue was not read", Unresolved},
		"failed":     {network(Definition{State: Unknown, Err: errors.New("timeout")}), "NetworkAttachmentDefinition apps/blue could not be read: timeout", Unresolved},
		"broken":     {known("{"), "NetworkAttachmentDefinition apps/blue: spec.config is no JSON", Unresolved},
		"on a node":  {known(""), "NetworkAttachmentDefinition apps/blue: spec.config is empty", Unresolved},
		"a new case": {network(Definition{State: 99}), "NetworkAttachmentDefinition apps/blue was not read", Unresolved},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Decide(Facts{Networks: []Network{tc.network}}, whereabouts).Networks
			if len(got) != 1 || got[0].Verdict != tc.verdict || !strings.HasPrefix(got[0].Message, tc.want) {
				t.Errorf("got %+v, want verdict %d and %q", got, tc.verdict, tc.want)
			}
		})
	}
}

func TestFactsOf(t *testing.T) {
	rules := Rules{ExcludedNamespaces: []string{"kube-system", "holdfast-system"}, GuardClusterNetwork: true, MultusNamespace: "multus"}
	plain := Facts{ClusterNetworkGuarded: true}
	with := func(change func(*Facts)) Facts { f := plain; change(&f); return f }
	cases := map[string]struct {
		meta        metav1.ObjectMeta
		hostNetwork bool
		want        Facts
	}{
		"a plain pod":                       {meta: metav1.ObjectMeta{Namespace: "apps"}, want: plain},
		"host network":                      {hostNetwork: true, want: with(func(f *Facts) { f.HostNetwork = true })},
		"an excluded namespace":             {meta: metav1.ObjectMeta{Namespace: "kube-system"}, want: with(func(f *Facts) { f.ExcludedNamespace = true })},
		"a mirror pod, with any value":      {meta: metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: ""}}, want: with(func(f *Facts) { f.MirrorPod = true })},
		"opted out":                         {meta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.GuardAnnotation: "off"}}, want: with(func(f *Facts) { f.OptedOut = true })},
		"an opt-out of another value is no": {meta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.GuardAnnotation: "false"}}, want: plain},
		"networks": {
			meta: metav1.ObjectMeta{Namespace: "apps", Annotations: map[string]string{podnetwork.NetworksAnnotation: "blue", podnetwork.DefaultNetworkAnnotation: "base"}},
			want: with(func(f *Facts) {
				f.Networks = []Network{
					{Attachment: podnetwork.Attachment{Namespace: "multus", Name: "base", Default: true}},
					{Attachment: podnetwork.Attachment{Namespace: "apps", Name: "blue"}},
				}
			}),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, FactsOf(&tc.meta, tc.hostNetwork, rules)); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
	facts := FactsOf(&metav1.ObjectMeta{Namespace: "apps", Annotations: map[string]string{podnetwork.NetworksAnnotation: "["}}, false, Rules{})
	if len(facts.Malformed) != 1 {
		t.Errorf("a malformed annotation: got %v, want one error", facts.Malformed)
	}
}
