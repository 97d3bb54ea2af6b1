// SPDX-License-Identifier: Apache-2.0

package bugs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/config"
	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/token"
	"github.com/holdfast-dev/holdfast/hack/dev/standin"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

// What a child of the suite reads from its environment, beside what CNI passes to a plugin.
const (
	pluginMode   = "HOLDFAST_TEST_PLUGIN"
	pluginConfig = "HOLDFAST_TEST_PLUGIN_CONFIG"
)

// runPlugin does in a process of its own what whereabouts' program does (cmd/whereabouts.go, cmdAddFunc and cmdDelFunc): a
// panic ends the process.
func runPlugin() {
	ipamConf, _, err := config.LoadIPAMConfig([]byte(os.Getenv(pluginConfig)), os.Getenv("CNI_ARGS"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ipam, err := wbkubernetes.NewKubernetesIPAM(os.Getenv("CNI_CONTAINERID"), os.Getenv("CNI_IFNAME"), *ipamConf)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	mode, limit := types.Allocate, types.AddTimeLimit
	if os.Getenv("CNI_COMMAND") == "DEL" {
		mode, limit = types.Deallocate, types.DelTimeLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if _, err := wbkubernetes.IPManagement(ctx, mode, ipam.Config, ipam); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// invoke runs the plugin as a node's runtime does, under the identity of whereabouts' pod there, and returns what it wrote.
func invoke(ctx context.Context, node, command, sandbox string, pod *corev1.Pod, network string, ipam settings) (output string, err error) {
	GinkgoHelper()
	kubeconfig := kubeconfigOf(ctx, node)
	flatFile := filepath.Join(filepath.Dir(kubeconfig), "whereabouts.conf") // without one the plugin does not start
	Expect(os.WriteFile(flatFile, []byte("{}"), 0o600)).To(Succeed())
	own := maps.Clone(ipam)
	maps.Copy(own, settings{"type": "whereabouts", "kubernetes": settings{"kubeconfig": kubeconfig}, "configuration_path": flatFile})
	configuration, err := json.Marshal(map[string]any{"cniVersion": "0.3.1", "name": network, "type": "macvlan", "ipam": own})
	Expect(err).NotTo(HaveOccurred())
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	plugin := exec.CommandContext(ctx, self, "-test.run=^TestBugs$")
	plugin.Env = append(os.Environ(), pluginMode+"=1", pluginConfig+"="+string(configuration), "NODENAME="+node,
		"CNI_COMMAND="+command, "CNI_CONTAINERID="+sandbox, "CNI_IFNAME=net1",
		fmt.Sprintf("CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s", pod.Namespace, pod.Name))
	var out bytes.Buffer
	plugin.Stdout, plugin.Stderr = &out, &out
	err = plugin.Run()
	return out.String(), err
}

// kubeconfigOf writes the kubeconfig that whereabouts' DaemonSet pod leaves on a node.
func kubeconfigOf(ctx context.Context, node string) string {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(admin.List(ctx, &pods, client.InNamespace(standin.DefaultWhereaboutsNamespace), client.MatchingLabels{"name": "whereabouts"})).To(Succeed())
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName != node {
			continue
		}
		identity, err := token.ForPod(ctx, theCluster.Config(), &pods.Items[i])
		Expect(err).NotTo(HaveOccurred())
		content, err := controlplane.Kubeconfig(identity)
		Expect(err).NotTo(HaveOccurred())
		path := filepath.Join(GinkgoT().TempDir(), "whereabouts.kubeconfig")
		Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
		return path
	}
	Fail("no pod of whereabouts on node " + node)
	return ""
}

// holder is who works on a node's slice, by whereabouts' lease for it; empty where nobody does.
func holder(ctx context.Context, g Gomega, lease string) string {
	var l coordinationv1.Lease
	err := admin.Get(ctx, client.ObjectKey{Namespace: standin.DefaultWhereaboutsNamespace, Name: lease}, &l)
	if apierrors.IsNotFound(err) || err == nil && l.Spec.HolderIdentity == nil {
		return ""
	}
	g.Expect(err).NotTo(HaveOccurred())
	return *l.Spec.HolderIdentity
}
