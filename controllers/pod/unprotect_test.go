// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/protection"
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
