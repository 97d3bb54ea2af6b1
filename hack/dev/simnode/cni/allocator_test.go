// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"strings"
	"testing"

	wbfake "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned/fake"
	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// whereabouts v0.9.4 uses a store that it has not made where its call is cut off
// after it has seen that the API server answers: one plugin dies, not this process.
func TestACallThatIsCutOffFailsAlone(t *testing.T) {
	ctx, cut := context.WithCancel(t.Context())
	pools, clientset := wbfake.NewSimpleClientset(), fake.NewClientset()
	pools.PrependReactor("list", "ippools", func(clienttesting.Action) (bool, runtime.Object, error) {
		cut()
		return false, nil, nil
	})
	p := newPlugins(t, newPod(nil))
	p.ipam.clients.Store(&clients{kubernetes: clientset, storage: wbkubernetes.NewKubernetesClient(pools, clientset)})

	c := call{config: []byte(wbPlugin), sandboxID: "sandbox-1", interfaceName: "net1", pod: newPod(nil)}
	_, err := p.ipam.add(ctx, c)
	if err == nil || !strings.Contains(err.Error(), "the plugin died") {
		t.Errorf("got %v, want an error that says that the plugin died", err)
	}
}
