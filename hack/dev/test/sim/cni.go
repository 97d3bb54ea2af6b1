// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"net"

	wbclient "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned"
	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	wbtypes "github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/internal/testing/scheduler"
)

// devices are the interfaces of a sandbox, in the order of its networks.
var devices = []string{"net1", "net2"}

// cni is whereabouts on one machine: its real allocator, under the token of its DaemonSet's pod.
type cni struct {
	client *wbkubernetes.Client
}

func (m *machine) newCNI(nodeUID types.UID) *cni {
	uid := m.daemonPod(metav1.NamespaceSystem, "whereabouts", "ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.4")
	pod := m.w.podByUID(uid)
	config, _ := m.w.restConfig("whereabouts@"+m.name, account(metav1.NamespaceSystem, "whereabouts", pod, string(uid), m.node, string(nodeUID)))
	return &cni{client: wbkubernetes.NewKubernetesClient(must(wbclient.NewForConfig(config)), must(kubernetes.NewForConfig(config)))}
}

func (w *World) podByUID(uid types.UID) string {
	for _, pod := range w.pods() {
		if pod.UID == uid {
			return pod.Name
		}
	}
	return ""
}

func (c *cni) manage(ctx context.Context, mode int, b *box, device string) ([]net.IPNet, error) {
	_, subnet, err := net.ParseCIDR(poolRange)
	if err != nil {
		return nil, err
	}
	conf := wbtypes.IPAMConfig{PodNamespace: b.namespace, PodName: b.name, OverlappingRanges: true,
		IPRanges: []wbtypes.RangeConfiguration{{Range: poolRange, RangeStart: subnet.IP}}}
	call := &wbkubernetes.KubernetesIPAM{Client: *c.client, Config: conf, Namespace: metav1.NamespaceSystem, ContainerID: b.id, IfName: device}
	return wbkubernetes.IPManagementKubernetesUpdate(scheduler.As(ctx, b.id[:8]), mode, call, conf)
}

var errNoAddress = errors.New("whereabouts gave no address")

func (c *cni) add(ctx context.Context, b *box, device string) (string, error) {
	ips, err := c.manage(ctx, wbtypes.Allocate, b, device)
	if err == nil && len(ips) != 1 {
		err = errNoAddress
	}
	if err != nil {
		return "", err
	}
	return ips[0].IP.String(), nil
}

// del drops the allocator's errors, as whereabouts' cmdDel does.
func (c *cni) del(ctx context.Context, b *box) {
	for _, device := range devices[:b.machine.w.plan.Networks] {
		_, _ = c.manage(ctx, wbtypes.Deallocate, b, device)
	}
}
