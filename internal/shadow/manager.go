// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlrecorder "sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/holdfast-dev/holdfast/internal/eventlimit"
)

// notePrefix begins the note of every event.
const notePrefix = "Shadow, only reported: "

// Manager is a manager with the webhooks and event recorders of a shadow.
func Manager(inner manager.Manager) manager.Manager { return &shadowManager{inner} }

type shadowManager struct{ manager.Manager }

// GetWebhookServer returns a server that allows every request after its handler has judged it.
func (m *shadowManager) GetWebhookServer() webhook.Server {
	return &server{m.Manager.GetWebhookServer()}
}

// GetEventRecorder returns a recorder with the prefix in each event.
func (m *shadowManager) GetEventRecorder(name string) ctrlrecorder.EventRecorder {
	return &recorder{m.Manager.GetEventRecorder(name)}
}

type server struct{ webhook.Server }

// Register registers a handler of admission requests.
func (s *server) Register(path string, handler http.Handler) {
	s.Server.Register(path, Admission(path, handler))
}

type recorder struct{ ctrlrecorder.EventRecorder }

// Eventf writes an event.
func (r *recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", shadowNote(note, args))
}

// AnnotatedEventf writes an event with annotations.
func (r *recorder) AnnotatedEventf(regarding, related runtime.Object, annotations map[string]string, kind, reason, action, note string, args ...any) {
	r.EventRecorder.AnnotatedEventf(regarding, related, annotations, kind, reason, action, "%s", shadowNote(note, args))
}

func shadowNote(format string, args []any) string {
	return eventlimit.Note(notePrefix + fmt.Sprintf(format, args...))
}

// withoutRetry does not retry what was withheld.
type withoutRetry[R comparable] struct {
	reconcile.TypedReconciler[R]
}

// WithoutRetry is a reconciler that does not retry what was withheld: like after a write, the next event reconciles again.
func WithoutRetry[R comparable](inner reconcile.TypedReconciler[R]) reconcile.TypedReconciler[R] {
	return withoutRetry[R]{inner}
}

// Reconcile calls the reconciler.
func (s withoutRetry[R]) Reconcile(ctx context.Context, request R) (reconcile.Result, error) {
	result, err := s.TypedReconciler.Reconcile(ctx, request)
	return result, Ignore(err)
}
