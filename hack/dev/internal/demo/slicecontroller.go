// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	nadinformers "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/informers/externalversions"
	wbclient "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned"
	wbinformers "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/informers/externalversions"
	nodecontroller "github.com/k8snetworkplumbingwg/whereabouts/pkg/node-controller"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

// whereaboutsAccount is that of whereabouts' DaemonSet and of its node-slice controller.
const whereaboutsAccount = "whereabouts"

// startSliceController runs whereabouts' own node-slice controller until ctx is done, under its own account. It sees only the
// run's nodes, so that nodes of other runs which come and go get no slices. The file that it returns is the one with
// whereabouts' defaults, without which the controller does not work; a network has to name it.
func (s *stage) startSliceController(ctx context.Context) (flatFile string, err error) {
	if flatFile, err = s.writeFlatFile(); err != nil {
		return "", err
	}
	identity, err := controlplane.ServiceAccount(ctx, s.cluster.Config(), sliceNamespace, whereaboutsAccount, nil)
	if err != nil {
		return "", err
	}
	clientset, err := kubernetes.NewForConfig(identity)
	if err != nil {
		return "", fmt.Errorf("node-slice controller: %w", err)
	}
	pools, err := wbclient.NewForConfig(identity)
	if err != nil {
		return "", fmt.Errorf("node-slice controller: %w", err)
	}
	networks, err := nadclient.NewForConfig(identity)
	if err != nil {
		return "", fmt.Errorf("node-slice controller: %w", err)
	}
	ownNodes := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = fmt.Sprintf("%s in (%s, %s)", corev1.LabelHostname, s.first, s.second)
	}))
	allPools := wbinformers.NewSharedInformerFactory(pools, 0)
	ownNetworks := nadinformers.NewSharedInformerFactoryWithOptions(networks, 0, nadinformers.WithNamespace(sliceNamespace))
	controller := nodecontroller.NewController(ctx, clientset, pools, networks, ownNodes.Core().V1().Nodes(),
		allPools.Whereabouts().V1alpha1().NodeSlicePools(), ownNetworks.K8sCniCncfIo().V1().NetworkAttachmentDefinitions(),
		false, sliceNamespace)
	for _, factory := range []interface{ Start(<-chan struct{}) }{ownNodes, allPools, ownNetworks} {
		factory.Start(ctx.Done())
	}
	go func() {
		if err := controller.Run(ctx, 1); err != nil && ctx.Err() == nil {
			s.print("guard %s, %s: whereabouts' node-slice controller ended: %v", s.state(), s.scenario.name, err)
		}
	}()
	return flatFile, nil
}

func (s *stage) writeFlatFile() (string, error) {
	path := filepath.Join(filepath.Dir(s.cluster.Kubeconfig()), s.namespace+".conf")
	content, err := json.Marshal(map[string]any{"datastore": "kubernetes", "kubernetes": map[string]string{"kubeconfig": s.cluster.Kubeconfig()}})
	if err == nil {
		err = os.WriteFile(path, content, 0o644)
	}
	if err != nil {
		return "", fmt.Errorf("whereabouts' configuration file: %w", err)
	}
	return path, nil
}
