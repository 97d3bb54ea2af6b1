// SPDX-License-Identifier: Apache-2.0

// Command allocate is whereabouts' own ADD, without its Lease: it prints the addresses. The node is named by NODENAME, as
// whereabouts has it. It is built with the modules of hack/dev, which has those of the allocator.
//
//	allocate KUBECONFIG NAMESPACE PODREF CONTAINER < the plugin's configuration
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/config"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace, podRef, container string) error {
	plugin, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	podNamespace, podName, _ := strings.Cut(podRef, "/")
	args := fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s", podNamespace, podName)
	ipamConfig, _, err := config.LoadIPAMConfig(plugin, args)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewClientViaKubeconfig(kubeconfig)
	if err != nil {
		return err
	}
	ipam := &kubernetes.KubernetesIPAM{Client: *client, Config: *ipamConfig, Namespace: namespace, ContainerID: container, IfName: "net1"}
	addresses, err := kubernetes.IPManagementKubernetesUpdate(context.Background(), types.Allocate, ipam, *ipamConfig)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		fmt.Println(address.IP)
	}
	return nil
}
