// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlrecorder "sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/holdfast-dev/holdfast/internal/eventlimit"
)

const (
	// notePrefix begins the note of every event.
	notePrefix = "Shadow, only reported: "
)

// Manager is a manager whose webhooks and recorders are those of a shadow: whoever is set up with it need not know.
func Manager(inner manager.Manager) manager.Manager { return &shadowManager{inner} }

type shadowManager struct{ manager.Manager }

// GetWebhookServer gives a server that allows every request after its handler has judged it.
func (m *shadowManager) GetWebhookServer() webhook.Server {
	return &server{m.Manager.GetWebhookServer()}
}

// GetEventRecorder gives a recorder whose events say that nothing was done.
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
