// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

func TestShippedConfigurationIsValid(t *testing.T) {
	installed, err := LoadManager("../../config/manager/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Server.CertDir = "/var/run/holdfast/serving-certs"
	if diff := cmp.Diff(want, installed); diff != "" {
		t.Errorf("the installation differs from the defaults in more than the certificates' folder (-want +got)\n%s", diff)
	}
}

func TestComponentsDifferOnlyInWhatTheyAreFor(t *testing.T) {
	warns := func(c *configv1alpha1.ManagerConfiguration) { c.UnsafeReleases.Mode = configv1alpha1.ReleaseModeWarn }
	cases := map[string]func(*configv1alpha1.ManagerConfiguration){
		"warn-unsafe-releases": warns,
		"kubelet-evidence": func(c *configv1alpha1.ManagerConfiguration) {
			warns(c)
			c.Evidence = configv1alpha1.EvidenceKubelet
		},
		"shadow": func(c *configv1alpha1.ManagerConfiguration) { c.Mode = configv1alpha1.ModeShadow },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := LoadManager("../../config/components/" + name + "/config.yaml")
			if err != nil {
				t.Fatal(err)
			}
			want, err := LoadManager("../../config/manager/config.yaml")
			if err != nil {
				t.Fatal(err)
			}
			change(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
