// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/release"
)

func TestControllerOptionsComeFromTheConfiguration(t *testing.T) {
	c := complete(t, configv1alpha1.ManagerConfiguration{
		Delays: configv1alpha1.Delays{
			ReleaseDelay: &metav1.Duration{Duration: time.Second}, GracePeriodSlack: &metav1.Duration{Duration: 2 * time.Second},
			SandboxCreationMax: &metav1.Duration{Duration: 3 * time.Second}, NodeGoneDelay: &metav1.Duration{Duration: 4 * time.Second},
		},
		Handshakes: configv1alpha1.Handshakes{ResponseWithin: &metav1.Duration{Duration: 5 * time.Second}},
		Controller: configv1alpha1.Controller{Concurrency: new(int32(3)), SweepInterval: &metav1.Duration{Duration: time.Minute}},
	})
	got := controllerOptions(c, Options{}.withDefaults(), nil)
	want := release.Settings{ReleaseDelay: time.Second, GracePeriodSlack: 2 * time.Second, SandboxCreationMax: 3 * time.Second, NodeGoneDelay: 4 * time.Second, ResponseWithin: 5 * time.Second}
	if diff := cmp.Diff(want, got.Settings); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got.Evidence != release.EvidenceAgent || got.Concurrency != 3 || got.SweepInterval != time.Minute {
		t.Errorf("got evidence %v, concurrency %d, sweep %s", got.Evidence, got.Concurrency, got.SweepInterval)
	}
	if diff := cmp.Diff([]string{"holdfast-agent", "holdfast-system", "kube-system"}, got.Rules.ExcludedNamespaces); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestPodOptionsComeFromTheConfiguration(t *testing.T) {
	c := complete(t, configv1alpha1.ManagerConfiguration{Protection: configv1alpha1.Protection{
		ExcludedNamespaces: []string{"infra"}, GuardClusterNetwork: new(true), MultusNamespace: "multus",
	}})
	got := podOptions(c, Options{}.withDefaults(), []ipam.Backend{whereabouts.New(whereabouts.Options{})})
	if !got.GuardClusterNetwork || got.MultusNamespace != "multus" {
		t.Errorf("got %+v", got.Rules)
	}
	if diff := cmp.Diff([]string{"holdfast-agent", "holdfast-system", "infra", "kube-system"}, got.Rules.ExcludedNamespaces); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !got.Manages(podnetwork.IPAM{Type: "whereabouts"}) || got.Manages(podnetwork.IPAM{Type: "host-local"}) {
		t.Error("the backends decide which IPAM is managed")
	}
}

func TestReleaseOptionsComeFromTheConfiguration(t *testing.T) {
	c := complete(t, configv1alpha1.ManagerConfiguration{UnsafeReleases: configv1alpha1.UnsafeReleases{
		Mode: configv1alpha1.ReleaseModeWarn, DaemonSets: []string{"cni/whereabouts", "kube-system/other"}, CNIUsers: []string{"cni"}, ReconcilerInDaemonSet: new(true),
	}})
	got := releaseOptions(c, Options{}.withDefaults(), nil)
	if got.Mode != configv1alpha1.ReleaseModeWarn || got.ManagerUser != "system:serviceaccount:holdfast-system:holdfast-manager" || !*got.ReconcilerInDaemonSet {
		t.Errorf("got %+v", got)
	}
	daemonSets := []types.NamespacedName{{Namespace: "cni", Name: "whereabouts"}, {Namespace: "kube-system", Name: "other"}}
	if diff := cmp.Diff(daemonSets, got.DaemonSets); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"cni"}, got.CNIUsers); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
