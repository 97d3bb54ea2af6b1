// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"net/http"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	manifests "github.com/holdfast-dev/holdfast/config"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// inMode are the options of a manager that runs in a mode, and what its clients are made of.
func inMode(mode configv1alpha1.Mode) (Options, *rest.Config) {
	o, restConfig := Options{Log: logr.Discard(), Namespace: manifests.ManagerNamespace}, &rest.Config{}
	enterMode(mode, restConfig, &o)
	return o, restConfig
}

// TestTheBackendOfAShadowOnlyReports: the backend below has no client, so that a write that it makes would panic.
func TestTheBackendOfAShadowOnlyReports(t *testing.T) {
	o, _ := inMode(configv1alpha1.ModeShadow)
	_, backend := actingOrNot(fakeManager{}, whereabouts.New(whereabouts.Options{}), o)
	if _, reports := backend.(*whereabouts.Reporting); !reports {
		t.Fatalf("everything is set up with a %T, which writes; expected a %T", backend, &whereabouts.Reporting{})
	}
	for _, result := range backend.Release(t.Context(), []ipam.Request{{Record: "one"}}) {
		if !errors.Is(result.Err, shadow.ErrWithheld) {
			t.Errorf("a release returned %v, expected %v", result.Err, shadow.ErrWithheld)
		}
	}
	if err := backend.DeleteReservation(t.Context(), ipam.Reservation{}); !errors.Is(err, shadow.ErrWithheld) {
		t.Errorf("the removal of a reservation returned %v, expected %v", err, shadow.ErrWithheld)
	}
}

func TestTheManagerOfAShadowIsNotTheOneThatActs(t *testing.T) {
	o, _ := inMode(configv1alpha1.ModeShadow)
	acting := fakeManager{}
	if mgr, _ := actingOrNot(acting, whereabouts.New(whereabouts.Options{}), o); isSame(mgr, acting) {
		t.Error("webhooks and recorders are set up with the manager that acts")
	}
}

func TestAGuardActsByItself(t *testing.T) {
	o, restConfig := inMode(configv1alpha1.ModeGuard)
	acting, direct := fakeManager{}, whereabouts.New(whereabouts.Options{})
	mgr, backend := actingOrNot(acting, direct, o)
	if !isSame(mgr, acting) || backend != whereaboutsBackend(direct) || o.shadow != nil || restConfig.WrapTransport != nil {
		t.Errorf("got manager %T, backend %T, reporter %v, gate %t; expected nothing between what acts and the API server", mgr, backend, o.shadow,
			restConfig.WrapTransport != nil)
	}
}

func isSame(mgr manager.Manager, as fakeManager) bool {
	fake, is := mgr.(fakeManager)
	return is && fake.Manager == as.Manager
}

func TestTheClientsOfAShadowHaveAGate(t *testing.T) {
	_, restConfig := inMode(configv1alpha1.ModeShadow)
	if restConfig.WrapTransport == nil {
		t.Fatal("nothing stands before the API server")
	}
	left := false
	client := restConfig.WrapTransport(transport(func(*http.Request) (*http.Response, error) {
		left = true
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "https://api/api/v1/namespaces/a/pods/b", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.RoundTrip(request)
	if response != nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, shadow.ErrBlocked) || left {
		t.Errorf("got %v, and the call left the process: %t; expected %v", err, left, shadow.ErrBlocked)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
