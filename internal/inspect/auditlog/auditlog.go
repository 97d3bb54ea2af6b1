// SPDX-License-Identifier: Apache-2.0

// Package auditlog records what a person does by hand, before and after: as an event about the record, or about the pool where there is
// no record, and in an annotation of the record. Nothing is done that could not be recorded.
package auditlog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/inspect/audit"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// Reporter is the name under which the plugin reports events, and the field manager of its writes.
const Reporter = "kubectl-holdfast"

// Release is one release by hand, as the annotation has it.
type Release struct {
	Time metav1.Time `json:"time"`
	// User is the name that the API server has for the person, and Reason the person's.
	User   string `json:"user"`
	Reason string `json:"reason"`
	// Address, Pool and SandboxID are the entry's.
	Address   string `json:"address"`
	Pool      string `json:"pool"`
	SandboxID string `json:"sandboxID"`
	// Overridden are the objections in spite of which it was done.
	Overridden []string `json:"overridden,omitempty"`
}

// Of is the release of an entry that is about to be made.
func Of(e *audit.Entry, user, reason string, overridden []string, now time.Time) Release {
	return Release{Time: metav1.NewTime(now.UTC().Truncate(time.Second)), User: user, Reason: reason, Address: e.Address, Pool: e.Pool, SandboxID: e.SandboxID, Overridden: overridden}
}

// is says whether both are one release: the time of the one that was read has another location.
func (r *Release) is(other *Release) bool {
	return r.Time.Equal(&other.Time) && r.User == other.User && r.Address == other.Address && r.Pool == other.Pool && r.SandboxID == other.SandboxID
}

// Writer writes the audit log.
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
		return "", fmt.Errorf("asking the API server who you are, for the audit log: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// Begin records what is about to be done: as an event, and on the record if there is one. After an error nothing may be done. The annotation replaces the
// proof from then on, so it comes last.
func (w *Writer) Begin(ctx context.Context, r Release, about *corev1.ObjectReference, record string) error {
	note := fmt.Sprintf("%s releases %s of pool %s (sandbox %s) by hand: %s", r.User, r.Address, r.Pool, r.SandboxID, r.Reason)
	for _, objection := range r.Overridden {
		note += "; overridden: " + objection
	}
	if err := w.event(ctx, about, v1alpha1.ReasonReleaseByHand, "ReleaseByHand", note); err != nil || record == "" {
		return err
	}
	return w.annotate(ctx, record, func(all []Release) []Release {
		all = append(all, r)
		return all[max(0, len(all)-v1alpha1.MaxReleasedByHand):]
	})
}

// End records the outcome. What was refused, or would have been the release of another entry, was not done: the record loses it. Any other failure may
// have come after the removal.
func (w *Writer) End(ctx context.Context, r Release, about *corev1.ObjectReference, record string, failure error) error {
	var kept error
	if isUndone := apierrors.IsForbidden(failure) || errors.Is(failure, ipam.ErrChanged); isUndone && record != "" {
		kept = client.IgnoreNotFound(w.annotate(ctx, record, func(all []Release) []Release {
			return slices.DeleteFunc(all, func(other Release) bool { return other.is(&r) })
		}))
	}
	reason, note := v1alpha1.ReasonReleasedByHand, fmt.Sprintf("%s released %s of pool %s (sandbox %s) by hand: %s", r.User, r.Address, r.Pool, r.SandboxID, r.Reason)
	if failure != nil {
		reason, note = v1alpha1.ReasonReleaseFailed, fmt.Sprintf("%s could not release %s of pool %s by hand: %v", r.User, r.Address, r.Pool, failure)
	}
	return errors.Join(kept, w.event(ctx, about, reason, "ReleaseByHand", note))
}

// annotate changes the releases that a record has.
func (w *Writer) annotate(ctx context.Context, name string, change func([]Release) []Release) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		record := &v1alpha1.IPAllocation{}
		if err := w.Client.Get(ctx, client.ObjectKey{Name: name}, record); err != nil {
			return fmt.Errorf("reading record %s for the audit log: %w", name, err)
		}
		var all []Release
		if text := record.Annotations[v1alpha1.ReleasedByHandAnnotation]; text != "" {
			if err := json.Unmarshal([]byte(text), &all); err != nil {
				return fmt.Errorf("reading annotation %s of record %s, which must not be lost: %w; correct it first", v1alpha1.ReleasedByHandAnnotation, name, err)
			}
		}
		text, err := json.Marshal(change(all))
		if err != nil {
			return fmt.Errorf("encoding the audit log: %w", err)
		}
		changed := record.DeepCopy()
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, v1alpha1.ReleasedByHandAnnotation, string(text))
		patch := client.MergeFromWithOptions(record, client.MergeFromWithOptimisticLock{})
		if err := w.Client.Patch(ctx, changed, patch, client.FieldOwner(Reporter)); err != nil {
			return fmt.Errorf("writing the audit log onto record %s: %w", name, err)
		}
		return nil
	})
}

// Unhold records, before it is done, that the user removes the finalizer from a pod. In a namespace that is being deleted nothing can be
// created: then the event is about the namespace.
func (w *Writer) Unhold(ctx context.Context, pod *corev1.Pod, reason string) error {
	user, err := w.WhoAmI(ctx)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("%s takes the finalizer %s off pod %s/%s (UID %s): %s", user, v1alpha1.Finalizer, pod.Namespace, pod.Name, pod.UID, reason)
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
	err = w.event(ctx, about, v1alpha1.ReasonProtectionRemovedByUser, "Unhold", note)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		about = &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: pod.Namespace}
		err = w.event(ctx, about, v1alpha1.ReasonProtectionRemovedByUser, "Unhold", note)
	}
	return err
}

func (w *Writer) event(ctx context.Context, about *corev1.ObjectReference, reason v1alpha1.Reason, action, note string) error {
	namespace := cmp.Or(about.Namespace, metav1.NamespaceDefault)
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "holdfast-by-hand-"},
		EventTime:  metav1.NewMicroTime(w.Now()), ReportingController: Reporter, ReportingInstance: w.Instance, Action: action,
		Reason: string(reason), Regarding: *about, Note: eventlimit.Note(note), Type: corev1.EventTypeWarning,
	}
	if err := w.Client.Create(ctx, event, client.FieldOwner(Reporter)); err != nil {
		return fmt.Errorf("writing an event into namespace %s for the audit log: %w", namespace, err)
	}
	return nil
}

// RecordReference names a record as the object of an event.
func RecordReference(record *v1alpha1.IPAllocation) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "IPAllocation", Name: record.Name, UID: record.UID, ResourceVersion: record.ResourceVersion}
}
