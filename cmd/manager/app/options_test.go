// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/config"
)

func complete(t *testing.T, c configv1alpha1.ManagerConfiguration) *configv1alpha1.ManagerConfiguration {
	t.Helper()
	completed, err := config.Complete(&c)
	if err != nil {
		t.Fatal(err)
	}
	return completed
}

func TestClientLimits(t *testing.T) {
	cases := map[string]struct {
		controller configv1alpha1.Controller
		qps        float32
		burst      int
	}{
		"none by default": {configv1alpha1.Controller{}, -1, 0},
		"those of the configuration": {
			configv1alpha1.Controller{QPS: new(float32(50)), Burst: new(int32(100))}, 50, 100,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			given := &rest.Config{Host: "https://cluster", QPS: 5}
			got := clientConfig(given, complete(t, configv1alpha1.ManagerConfiguration{Controller: tc.controller}).Controller)
			if got.QPS != tc.qps || got.Burst != tc.burst {
				t.Errorf("got QPS %v, burst %d", got.QPS, got.Burst)
			}
			if !strings.Contains(got.UserAgent, Name) || got.Host != given.Host {
				t.Errorf("got %v", got)
			}
			if given.QPS != 5 || given.UserAgent != "" {
				t.Error("the caller's configuration changed")
			}
		})
	}
}

func TestTheManagersOwnNamespacesAreAlwaysExcluded(t *testing.T) {
	c := complete(t, configv1alpha1.ManagerConfiguration{Protection: configv1alpha1.Protection{ExcludedNamespaces: []string{"infra", "kube-system"}}})
	got := excludedNamespaces(c, Options{Namespace: "guard"})
	if diff := cmp.Diff([]string{"guard", "holdfast-agent", "infra", "kube-system"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOptionsHaveDefaults(t *testing.T) {
	got := Options{}.withDefaults()
	if got.User != "system:serviceaccount:holdfast-system:holdfast-manager" || got.Clock == nil || got.CertificateWait != defaultCertificateWait {
		t.Errorf("got %+v", got)
	}
	if got := (Options{Namespace: "guard"}).withDefaults().User; got != "system:serviceaccount:guard:holdfast-manager" {
		t.Errorf("got %s", got)
	}
}

func TestSchemeKnowsWhatIsRead(t *testing.T) {
	scheme := newScheme()
	for _, kind := range []string{"IPPool", "OverlappingRangeIPReservation"} {
		if got := scheme.Recognizes(schema.GroupVersionKind{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1", Kind: kind}); !got {
			t.Errorf("%s is not registered", kind)
		}
	}
	for _, object := range []struct {
		name   string
		exists bool
	}{
		{"IPAllocation", scheme.Recognizes(v1alpha1.GroupVersion.WithKind("IPAllocation"))},
		{"Pod", scheme.Recognizes(corev1.SchemeGroupVersion.WithKind("Pod"))},
		{"NetworkAttachmentDefinition", scheme.Recognizes(nadv1.SchemeGroupVersion.WithKind("NetworkAttachmentDefinition"))},
	} {
		if !object.exists {
			t.Errorf("%s is not registered", object.name)
		}
	}
}

func TestNewRefusesAWrongConfiguration(t *testing.T) {
	_, err := New(context.Background(), &rest.Config{}, &configv1alpha1.ManagerConfiguration{Evidence: "Runtime"}, Options{})
	if err == nil || !strings.Contains(err.Error(), "evidence: Unsupported value") {
		t.Errorf("got %v", err)
	}
}
