// SPDX-License-Identifier: Apache-2.0

// Package trail writes down what a person does by hand, before and after: an event about the record, or about the pool where there is
// no record, and an annotation on the record. Without a trail nothing is done.
package trail

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/audit"
)

// Reporter is the name under which the plugin reports events, and the field manager of its writes.
const Reporter = "kubectl-holdfast"

// Deed is one release by hand.
type Deed struct {
	Time metav1.Time `json:"time"`
	// User is who did it, as the API server knows them; Reason is what they said.
	User   string `json:"user"`
	Reason string `json:"reason"`
	// Address, Pool and SandboxID are the entry's.
	Address   string `json:"address"`
	Pool      string `json:"pool"`
	SandboxID string `json:"sandboxID"`
	// Overridden are the objections that were gone past.
	Overridden []string `json:"overridden,omitempty"`
}

// Writer writes the trail.
type Writer struct {
	Client client.Client
	// Instance is the machine on which the command runs, for events.
	Instance string
	Now      func() time.Time
}

// WhoAmI asks the API server for the user's name.
func (w *Writer) WhoAmI(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := w.Client.Create(ctx, review); err != nil {
		return "", fmt.Errorf("asking the API server who you are, for the trail: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// Begin writes down what is about to be done: on the record if there is one, and as an event. An error means that nothing may be done.
func (w *Writer) Begin(ctx context.Context, deed Deed, about *corev1.ObjectReference, record string) error {
	if record != "" {
		if err := w.annotate(ctx, deed, record); err != nil {
			return err
		}
	}
	note := fmt.Sprintf("%s releases %s of pool %s (sandbox %s) by hand: %s", deed.User, deed.Address, deed.Pool, deed.SandboxID, deed.Reason)
	for _, objection := range deed.Overridden {
		note += "; overridden: " + objection
	}
	return w.event(ctx, about, v1alpha1.ReasonReleaseByHand, note)
}

// End writes down how it ended.
func (w *Writer) End(ctx context.Context, deed Deed, about *corev1.ObjectReference, failure error) error {
	if failure != nil {
		return w.event(ctx, about, v1alpha1.ReasonReleaseFailed, fmt.Sprintf("%s could not release %s of pool %s by hand: %v", deed.User, deed.Address, deed.Pool, failure))
	}
	return w.event(ctx, about, v1alpha1.ReasonReleasedByHand, fmt.Sprintf("%s released %s of pool %s (sandbox %s) by hand: %s", deed.User, deed.Address, deed.Pool, deed.SandboxID, deed.Reason))
}

func (w *Writer) annotate(ctx context.Context, deed Deed, name string) error {
	record := &v1alpha1.IPAllocation{}
	if err := w.Client.Get(ctx, client.ObjectKey{Name: name}, record); err != nil {
		return fmt.Errorf("reading record %s for the trail: %w", name, err)
	}
	var deeds []Deed
	if text := record.Annotations[v1alpha1.ReleasedByHandAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &deeds); err != nil {
			return fmt.Errorf("reading annotation %s of record %s, which must not be lost: %w; correct it first", v1alpha1.ReleasedByHandAnnotation, name, err)
		}
	}
	deeds = append(deeds, deed)
	deeds = deeds[max(0, len(deeds)-v1alpha1.MaxReleasedByHand):]
	text, err := json.Marshal(deeds)
	if err != nil {
		return fmt.Errorf("encoding the trail: %w", err)
	}
	changed := record.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, v1alpha1.ReleasedByHandAnnotation, string(text))
	patch := client.MergeFromWithOptions(record, client.MergeFromWithOptimisticLock{})
	if err := w.Client.Patch(ctx, changed, patch, client.FieldOwner(Reporter)); err != nil {
		return fmt.Errorf("writing the trail onto record %s: %w", name, err)
	}
	return nil
}

// Unhold writes down, before it is done, that the user takes the finalizer off a pod. In a namespace that is being deleted nothing can
// be created: then the event is about the namespace.
func (w *Writer) Unhold(ctx context.Context, pod *corev1.Pod, reason string) error {
	user, err := w.WhoAmI(ctx)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("%s takes the finalizer %s off pod %s/%s (UID %s): %s", user, v1alpha1.Finalizer, pod.Namespace, pod.Name, pod.UID, reason)
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
	err = w.write(ctx, about, v1alpha1.ReasonProtectionRemovedByUser, "Unhold", note)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		about = &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: pod.Namespace}
		err = w.write(ctx, about, v1alpha1.ReasonProtectionRemovedByUser, "Unhold", note)
	}
	return err
}

func (w *Writer) event(ctx context.Context, about *corev1.ObjectReference, reason v1alpha1.Reason, note string) error {
	return w.write(ctx, about, reason, "ReleaseByHand", note)
}

func (w *Writer) write(ctx context.Context, about *corev1.ObjectReference, reason v1alpha1.Reason, action, note string) error {
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "holdfast-by-hand-"},
		EventTime:  metav1.NewMicroTime(w.Now()), ReportingController: Reporter, ReportingInstance: w.Instance, Action: action,
		Reason: string(reason), Regarding: *about, Note: eventlimit.Note(note), Type: corev1.EventTypeWarning,
	}
	if err := w.Client.Create(ctx, event, client.FieldOwner(Reporter)); err != nil {
		return fmt.Errorf("writing an event into namespace %s for the trail: %w", namespace, err)
	}
	return nil
}

// RecordReference names a record as the object of an event.
func RecordReference(record *v1alpha1.IPAllocation) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "IPAllocation", Name: record.Name, UID: record.UID, ResourceVersion: record.ResourceVersion}
}

// DeedOf is what is about to be done to an entry.
func DeedOf(e *audit.Entry, user, reason string, overridden []string, now time.Time) Deed {
	return Deed{Time: *inspect.At(now.UTC().Truncate(time.Second)), User: user, Reason: reason, Address: e.Address, Pool: e.Pool, SandboxID: e.SandboxID, Overridden: overridden}
}
