// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/protection"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// countingReader counts the calls that would go to the API server.
type countingReader struct {
	client.Reader
	gets int
}

func (r *countingReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	r.gets++
	return nil
}

func TestThePodsAnnotationBoundsTheReadsOfDefinitions(t *testing.T) {
	different := make([]string, podnetwork.MaxElements)
	for i := range different {
		different[i] = fmt.Sprint("net", i)
	}
	for name, tc := range map[string]struct {
		networks string
		gets     int
		unknown  bool
	}{
		"one network":                      {networks: "blue", gets: 1},
		"one network, named many times":    {networks: strings.TrimSuffix(strings.Repeat("blue,", podnetwork.MaxElements), ","), gets: 1},
		"as many networks as there may be": {networks: strings.Join(different, ","), gets: podnetwork.MaxDefinitions, unknown: true},
		"more elements than there may be":  {networks: strings.Repeat("blue,", 100_000)},
	} {
		t.Run(name, func(t *testing.T) {
			reader := &countingReader{}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Annotations: map[string]string{podnetwork.NetworksAnnotation: tc.networks}}}
			facts, err := (&Reconciler{}).definitions(t.Context(), pod, reader, true)
			if err != nil || reader.gets != tc.gets {
				t.Errorf("%d reads, %v; want %d", reader.gets, err, tc.gets)
			}
			unknown := false
			for _, network := range facts.Networks {
				unknown = unknown || network.Definition.State != protection.Known
			}
			if unknown != tc.unknown {
				t.Errorf("a network is unknown: %t, want %t", unknown, tc.unknown)
			}
		})
	}
}

// TestAFinalizerThatIsPutBackIsReported: another webhook puts the finalizer back in each patch that removes it, which the API server accepts.
func TestAFinalizerThatIsPutBackIsReported(t *testing.T) {
	f := newWorld(t, finishedAfter(time.Minute), onepod.Node("node", "node-1", "m1"))
	f.Pool.Entries = nil
	putsBack := func(o client.Object) error {
		o.SetFinalizers([]string{v1alpha1.Finalizer})
		return nil
	}
	tries := 0
	f.r.finalizers.Writer = interceptor.NewClient(f.Truth, interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			tries++
			return putsBack(o)
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			return putsBack(o)
		}})
	for i := range 2 {
		if err := f.after(time.Duration(i+1) * time.Minute); err == nil || !strings.Contains(err.Error(), "puts it back") {
			t.Errorf("try %d: %v", i, err)
		}
	}
	if len(f.Recorder.Events) != 1 || tries != 2 {
		t.Fatalf("%d events and %d tries, want 1 and 2", len(f.Recorder.Events), tries)
	}
	if event := <-f.Recorder.Events; !strings.Contains(event, string(v1alpha1.ReasonUnprotectFailed)) {
		t.Errorf("event %q", event)
	}
}
