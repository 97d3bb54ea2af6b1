// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apijson"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// The paths of the webhooks that judge removals.
const (
	IPPoolReleasePath      = "/validate-release-ippool"
	ReservationReleasePath = "/validate-release-reservation"
)

// defaultReleaseTimeout leaves time for a response before the API server's own timeout, 1 s, which would let the write pass.
const defaultReleaseTimeout = 700 * time.Millisecond

// ReleaseOptions configure the webhooks that judge removals.
type ReleaseOptions struct {
	Mode configv1alpha1.ReleaseMode
	// ManagerUser is the manager's own user name, which may remove everything.
	ManagerUser string
	// DaemonSets are those whose pods run CNI DEL on their own node.
	DaemonSets []types.NamespacedName
	// ReconcilerInDaemonSet is true if the IPAM's reconciler shares these pods, and so their tokens. Nil: derived from the pod's images.
	ReconcilerInDaemonSet *bool
	// Evidence is the mode of the installation, and PoliciesSince the time from which admission policies keep other accounts from writing what
	// a kubelet reports: see release.Evidence.Ending. With agents, no policies and an error mean that no pod's report counts.
	Evidence      release.Evidence
	PoliciesSince func(context.Context) (time.Time, error)
	// CNIUsers are user names that run CNI DEL with another identity than a pod-bound token.
	CNIUsers []string
	// Backend is the IPAM whose pools and reservations are reviewed.
	Backend ipam.Reviewable
	// CachedRecords are the records of a pod's name, by a cache that one watch fills in the order of the versions. Nil: every look is a live list.
	CachedRecords func(context.Context, ipam.PodRef) ([]v1alpha1.IPAllocation, error)
	// Timeout bounds the live reads of one request. Default: 700 ms, for a webhook timeout of 1 s.
	Timeout time.Duration
	// Clock is the real one except in tests; it limits events.
	Clock clock.PassiveClock
}

func (o ReleaseOptions) complete() (ReleaseOptions, error) {
	if o.Timeout == 0 {
		o.Timeout = defaultReleaseTimeout
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	var errs []error
	switch o.Mode {
	case configv1alpha1.ReleaseModeOff, configv1alpha1.ReleaseModeWarn, configv1alpha1.ReleaseModeDeny:
	default:
		errs = append(errs, fmt.Errorf("mode is %q, expected %s, %s or %s", o.Mode, configv1alpha1.ReleaseModeOff, configv1alpha1.ReleaseModeWarn, configv1alpha1.ReleaseModeDeny))
	}
	if o.Evidence == release.EvidenceAgent && o.PoliciesSince == nil {
		errs = append(errs, errors.New("nothing reports whether the policies that make a kubelet's report evidence are in force"))
	}
	if o.ManagerUser == "" {
		errs = append(errs, errors.New("the manager's user name is empty: it could not release anything itself"))
	}
	if o.Backend == nil {
		errs = append(errs, errors.New("no backend reads pools and reservations"))
	}
	return o, errors.Join(errs...)
}

// +kubebuilder:rbac:groups="",resources=pods;nodes,verbs=get
// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=get
// +kubebuilder:rbac:groups=holdfast.dev,resources=ipallocations,verbs=get;list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupReleaseWebhooks registers the webhooks that judge removals of pool entries and of reservations.
func SetupReleaseWebhooks(mgr manager.Manager, o ReleaseOptions) error {
	o, err := o.complete()
	if err != nil {
		return fmt.Errorf("setting up the unsafe-release webhooks: %w", err)
	}
	guard := newReleaseGuard(mgr.GetAPIReader(), mgr.GetEventRecorder("holdfast"), o)
	guard.authentic = newAuthenticator(mgr.GetAPIReader())
	server := mgr.GetWebhookServer()
	server.Register(IPPoolReleasePath, serve("release-ippool", maxPoolBytes, &IPPoolReleaseValidator{guard}))
	server.Register(ReservationReleasePath, serve("release-reservation", maxPoolBytes, &ReservationReleaseValidator{guard}))
	return nil
}

// deletes reports whether the write deletes the object. An update that removes the last finalizer of an object that is being deleted does so too, without a
// review of a deletion (k8s.io/apiserver pkg/registry/generic/registry/store.go, ShouldDeleteDuringUpdate).
func deletes(req *admission.Request) bool {
	var after struct {
		Metadata struct {
			DeletionTimestamp string   `json:"deletionTimestamp"`
			Finalizers        []string `json:"finalizers"`
		} `json:"metadata"`
	}
	if req.Operation == admissionv1.Delete {
		return true
	}
	if !bytes.Contains(req.Object.Raw, []byte("deletionTimestamp")) {
		return false
	}
	unreadable := apijson.Unmarshal(req.Object.Raw, &after) != nil // it may delete the object
	return unreadable || after.Metadata.DeletionTimestamp != "" && len(after.Metadata.Finalizers) == 0
}

// releaseGuard is what both webhooks share.
type releaseGuard struct {
	options  ReleaseOptions
	reader   client.Reader
	recorder events.EventRecorder
	events   *eventlimit.Limit
	// proven has the DaemonSetPod of each boundPod that was found to be a trusted DaemonSet's.
	proven *lru.Cache
	// authentic rejects reviews that the API server did not send; nil disables the check.
	authentic *authenticator
}

// maxProvenPods bounds the memory of writers; one that was forgotten is read again.
const maxProvenPods = 20000

// newReleaseGuard takes a reader that bypasses every cache.
func newReleaseGuard(live client.Reader, recorder events.EventRecorder, o ReleaseOptions) *releaseGuard {
	return &releaseGuard{options: o, reader: live, recorder: recorder, events: eventlimit.New(o.Clock, eventBounds), proven: lru.New(maxProvenPods)}
}
