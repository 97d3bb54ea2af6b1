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

func TestDenyComponentDiffersOnlyInTheMode(t *testing.T) {
	denying, err := LoadManager("../../config/components/deny-unsafe-releases/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := LoadManager("../../config/manager/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want.UnsafeReleases.Mode = configv1alpha1.ReleaseModeDeny
	if diff := cmp.Diff(want, denying); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
