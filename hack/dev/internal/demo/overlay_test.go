// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/acn"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/dnc"
	"github.com/holdfast-dev/holdfast/internal/testing/manifests"
)

func TestAPrefixThatIsKeptForADeadNodeIsALeak(t *testing.T) {
	node := func(uid types.UID) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-x", UID: uid}}
	}
	for name, tc := range map[string]struct {
		now  *corev1.Node // nil: no Node of the name
		want int
	}{
		"a live Node":                 {node("uid-1"), 0},
		"a Node that is gone":         {nil, 1},
		"another Node under its name": {node("uid-2"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			synctest.Test(t, func(t *testing.T) {
				s.pool = placed{scenario: replacedNode()}.pool(true)
				c := fake.NewClientBuilder().WithScheme(s.client.Scheme()).WithObjects(node("uid-1")).WithStatusSubresource(acn.Object()).Build()
				s.client = c
				controller, err := dnc.New(dnc.Options{Client: c, Range: s.pool, Bits: nodePrefixBits})
				if err != nil {
					t.Fatal(err)
				}
				controller.Join("node-x")
				ctx, cancel := context.WithCancel(t.Context())
				go controller.Run(ctx)
				synctest.Wait()
				cancel()
				if err := c.Delete(t.Context(), node("")); err != nil {
					t.Fatal(err)
				}
				if tc.now != nil {
					if err := c.Create(t.Context(), tc.now); err != nil {
						t.Fatal(err)
					}
				}
				o := &overlay{stage: s, dnc: controller}
				if err := o.countLost(t.Context()); err != nil || o.lostPrefixes != tc.want {
					t.Errorf("%d lost prefixes, error %v; want %d", o.lostPrefixes, err, tc.want)
				}
			})
		})
	}
}

func TestOnlyTheOverlaysNodesNeedACNS(t *testing.T) {
	side := newSide(t, true)
	var want []string
	for _, p := range side.scenarios {
		if s := side.stage(p); p.overlay {
			want = append(want, s.first, s.second)
		}
	}
	if got := side.cnsNodes(); len(got) == 0 || !slices.Equal(got, want) {
		t.Errorf("cnsNodes() = %q, want %q", got, want)
	}
}

func TestTheManifestsCanBeRead(t *testing.T) {
	for name, manifest := range map[string][]byte{
		"azure.yaml": azureManifest, "slow-garbage-collector.yaml": slowCollectorManifest,
		"refused-pool-writes.yaml": refusedWritesManifest,
	} {
		if objects, err := manifests.Parse(manifest); err != nil || len(objects) == 0 {
			t.Errorf("%s: %d objects, error %v", name, len(objects), err)
		}
	}
}
