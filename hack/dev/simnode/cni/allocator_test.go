// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"errors"
	"testing"

	wbfake "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned/fake"
	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// whereabouts v0.9.4 uses a store that it has not made where its call is cut off
// after it has seen that the API server answers: one plugin dies, not this process.
func TestACallThatIsCutOffFailsAlone(t *testing.T) {
	var cut context.CancelFunc
	toBeCut := func() (ctx context.Context) {
		ctx, cut = context.WithCancel(t.Context())
		t.Cleanup(cut)
		return ctx
	}
	pools, clientset := wbfake.NewSimpleClientset(), fake.NewClientset()
	pools.PrependReactor("list", "ippools", func(clienttesting.Action) (bool, runtime.Object, error) {
		cut()
		return false, nil, nil
	})
	p := newPlugins(t, newPod(nil))
	p.ipam.clients.Store(&clients{kubernetes: clientset, storage: wbkubernetes.NewKubernetesClient(pools, clientset)})

	p.ipam.options.DelTimeout = types.DelTimeLimit
	c := call{config: []byte(wbPlugin), sandboxID: "sandbox-1", interfaceName: "net1", pod: newPod(nil)}
	_, err := p.ipam.add(toBeCut(), c)
	if !errors.Is(err, errDied) {
		t.Errorf("ADD: got %v, want %v", err, errDied)
	}
	if dropped, err := p.ipam.del(toBeCut(), c); !errors.Is(err, errDied) {
		t.Errorf("DEL: got %v (dropped %v), want %v, which the plugin can't drop", err, dropped, errDied)
	}
}
