// SPDX-License-Identifier: Apache-2.0

// Package reconciler runs whereabouts' own reconciler, which in an installation
// since whereabouts 0.9.4 is a Deployment of its own: its identity is a token
// bound to that Deployment's pod.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"net"

	wbclient "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned"
	wbreconciler "github.com/k8snetworkplumbingwg/whereabouts/pkg/reconciler"
	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

// podSelector is that of the Deployment in whereabouts' manifests
// (doc/crds/reconciler-deployment.yaml).
const podSelector = "name=whereabouts-reconciler"

// ErrNoPod says that the reconciler's Deployment has no running pod.
var ErrNoPod = errors.New("no running pod of whereabouts' reconciler")

// Identity returns the configuration that a container of the reconciler's pod
// in this namespace would have.
func Identity(ctx context.Context, administrator *rest.Config, namespace string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(administrator)
	if err != nil {
		return nil, fmt.Errorf("whereabouts' reconciler: %w", err)
	}
	pod, err := runningPod(ctx, client, namespace)
	if err != nil {
		return nil, err
	}
	config, err := controlplane.ServiceAccount(ctx, administrator, pod.Namespace, pod.Spec.ServiceAccountName, pod)
	if err != nil {
		return nil, fmt.Errorf("whereabouts' reconciler: %w", err)
	}
	config.UserAgent = "whereabouts-reconciler/simnode"
	return config, nil
}

func runningPod(ctx context.Context, client kubernetes.Interface, namespace string) (*corev1.Pod, error) {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: podSelector})
	if err != nil {
		return nil, fmt.Errorf("pods of whereabouts' reconciler: %w", err)
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			return &pod, nil
		}
	}
	return nil, fmt.Errorf("%w in namespace %s: %d pods with label %s", ErrNoPod, namespace, len(pods.Items), podSelector)
}

// Run is one run of the reconciler, over all pools, then over all reservations
// (pkg/reconciler/ip.go). It returns the addresses that it took from pools. Its
// own calls have limits of their own, but none of them ends with ctx.
func Run(ctx context.Context, identity *rest.Config) ([]net.IP, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(identity)
	if err != nil {
		return nil, fmt.Errorf("whereabouts' reconciler: %w", err)
	}
	pools, err := wbclient.NewForConfig(identity)
	if err != nil {
		return nil, fmt.Errorf("whereabouts' reconciler: %w", err)
	}
	looper, err := wbreconciler.NewReconcileLooperWithClient(wbkubernetes.NewKubernetesClient(pools, clientset))
	if err != nil {
		return nil, fmt.Errorf("whereabouts' reconciler: %w", err)
	}
	freed, err := looper.ReconcileIPPools()
	if err != nil { // its run ends here: reservations are left as they are
		return freed, fmt.Errorf("whereabouts' reconciler, IPPools: %w", err)
	}
	if err := looper.ReconcileOverlappingIPAddresses(); err != nil {
		return freed, fmt.Errorf("whereabouts' reconciler, reservations: %w", err)
	}
	return freed, nil
}
