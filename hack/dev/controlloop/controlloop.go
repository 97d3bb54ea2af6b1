// SPDX-License-Identifier: Apache-2.0

// Package controlloop runs whereabouts' own pod control loop, which in an
// installation is a process of the DaemonSet's pod on every node: it gives back
// the addresses of the node's pods once they are deleted.
package controlloop

import (
	"context"
	"errors"
	"fmt"
	"os"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	nadinformers "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/informers/externalversions"
	wbcontrolloop "github.com/k8snetworkplumbingwg/whereabouts/pkg/controlloop"
	wbclient "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned"
	wbinformers "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/informers/externalversions"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// What whereabouts' manifests set in the environment of its container. The
// control loop reads both (pkg/controlloop/pod.go), so that a process has one
// control loop.
const (
	NodeEnv      = "NODENAME"
	NamespaceEnv = "WHEREABOUTS_NAMESPACE"
)

// eventSource is what its events name as their source (cmd/controlloop).
const eventSource = "pod-ip-controlloop"

// Run does what whereabouts' command does (cmd/controlloop), except that its
// identity is given and not that of the pod that it runs in. The environment says
// which node's pods are its own. It calls started once its caches are full, and
// returns when ctx ends. A network's configuration has to name a flat file that
// exists here (configuration_path): there is no /host.
func Run(ctx context.Context, identity *rest.Config, started func() error) error {
	if os.Getenv(NodeEnv) == "" || os.Getenv(NamespaceEnv) == "" {
		return fmt.Errorf("whereabouts' control loop: %s and %s are both needed in the environment", NodeEnv, NamespaceEnv)
	}
	clientset, clientErr := kubernetes.NewForConfig(identity)
	pools, poolErr := wbclient.NewForConfig(identity)
	networks, networkErr := nadclient.NewForConfig(identity)
	if err := errors.Join(clientErr, poolErr, networkErr); err != nil {
		return fmt.Errorf("whereabouts' control loop: %w", err)
	}
	logging.SetLogLevel("debug")
	logging.SetLogStderr(true)
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	broadcaster.StartLogging(logging.Verbosef)
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clientset.CoreV1().Events(metav1.NamespaceAll)})

	podFactory, err := wbcontrolloop.PodInformerFactory(clientset)
	if err != nil {
		return fmt.Errorf("whereabouts' control loop: %w", err)
	}
	poolFactory := wbinformers.NewSharedInformerFactory(pools, 0)
	networkFactory := nadinformers.NewSharedInformerFactory(networks, 0)
	controller := wbcontrolloop.NewPodController(clientset, pools, podFactory, poolFactory, networkFactory, broadcaster,
		broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: eventSource}))
	podFactory.Start(ctx.Done())
	networkFactory.Start(ctx.Done())
	poolFactory.Start(ctx.Done())
	controller.Start(ctx.Done())
	defer controller.Shutdown()
	if err := started(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
