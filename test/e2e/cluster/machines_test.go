// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/test/e2e/observer"
)

// clusterFolder is where make cluster-up keeps its state, and clusterCommand is what breaks and mends the nodes.
const (
	clusterFolder  = "bin/cluster"
	clusterCommand = "bin/holdfast-cluster"
	kubeFolder     = "bin/kube"
)

// kubectl is the path of that of the Kubernetes version which the suite is run for, or of the machine's own if it was not built.
func kubectl() string {
	GinkgoHelper()
	folder, err := filepath.Abs(cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join(repository, kubeFolder)))
	Expect(err).NotTo(HaveOccurred())
	path, err := exec.LookPath(filepath.Join(folder, "kubectl"))
	if err != nil {
		path, err = exec.LookPath("kubectl")
	}
	Expect(err).NotTo(HaveOccurred(), "expected kubectl in %s or in PATH", folder)
	return path
}

// breakNode runs `holdfast-cluster node ACTION NAME`; what it takes to mend the node is done when the spec ends.
func breakNode(ctx context.Context, action, name string, args ...string) {
	GinkgoHelper()
	By(action + " " + name)
	if mend, ok := map[string]string{"freeze": "thaw", "cut-off": "reconnect", "kill": "start"}[action]; ok {
		DeferCleanup(func(ctx context.Context) { power(ctx, "node", mend, name) })
	}
	power(ctx, append([]string{"node", action, name}, args...)...)
}

// mendNode undoes a break before the spec ends; to do it twice changes nothing.
func mendNode(ctx context.Context, action, name string) {
	GinkgoHelper()
	By(action + " " + name)
	power(ctx, "node", action, name)
}

// power runs the cluster's own command.
func power(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return run(ctx, clusterCommand, args...)
}

// run runs a command at the top of the repository and gives what it printed.
func run(ctx context.Context, name string, args ...string) string {
	GinkgoHelper()
	return runFor(ctx, Default, name, args...)
}

// runFor is run inside of an Eventually, which tries a command that failed again.
func runFor(ctx context.Context, g Gomega, name string, args ...string) string {
	GinkgoHelper()
	var stdout, stderr strings.Builder
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Stdout, command.Stderr = repository, &stdout, &stderr
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	g.Expect(command.Run()).To(Succeed(), "%s %s:\n%s%s", name, strings.Join(args, " "), &stdout, &stderr)
	return stdout.String()
}

// clusterState is what the suite reads of the cluster's state.
type clusterState struct {
	Platform string `json:"platform"`
	Nodes    []struct {
		Name string `json:"name"`
		// NamespacePID changes when the node restarts; 0 while it is killed.
		NamespacePID     int    `json:"namespacePID"`
		ContainerdSocket string `json:"containerdSocket"`
	} `json:"nodes"`
}

func readState() (state clusterState, err error) {
	text, err := os.ReadFile(filepath.Join(repository, clusterFolder, "state.json"))
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	return state, err
}

// platform is k3s if make cluster-up was called with it.
func platform() string {
	GinkgoHelper()
	if !powered {
		return ""
	}
	state, err := readState()
	Expect(err).NotTo(HaveOccurred())
	return state.Platform
}

// watchedNodes reads from the cluster's state which process keeps each node's namespaces.
func watchedNodes() ([]observer.Node, error) {
	state, err := readState()
	if err != nil {
		return nil, err
	}
	var nodes []observer.Node
	for _, node := range state.Nodes {
		if node.NamespacePID != 0 {
			nodes = append(nodes, observer.Node{Name: node.Name, PID: node.NamespacePID})
		}
	}
	return nodes, nil
}

// awaitReady waits until a node is Ready, or is not.
func awaitReady(ctx context.Context, name string, ready bool) {
	GinkgoHelper()
	By(map[bool]string{true: "wait for node " + name + " to be Ready", false: "wait for node " + name + " to be found not Ready"}[ready])
	Eventually(func(g Gomega) {
		var node corev1.Node
		g.Expect(admin.Get(ctx, client.ObjectKey{Name: name}, &node)).To(Succeed())
		g.Expect(isReady(&node)).To(Equal(ready), "conditions of %s: %+v", name, node.Status.Conditions)
		if ready {
			// The taints go after the condition has changed, and until then evict every new pod.
			g.Expect(node.Spec.Taints).NotTo(ContainElement(HaveField("Key", BeElementOf(corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable))))
		}
	}).WithContext(ctx).WithTimeout(nodeSoon).Should(Succeed())
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// changeNode patches a Node as an administrator does.
func changeNode(ctx context.Context, name string, change func(*corev1.Node)) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var node corev1.Node
		g.Expect(admin.Get(ctx, client.ObjectKey{Name: name}, &node)).To(Succeed())
		before := node.DeepCopy()
		change(&node)
		g.Expect(admin.Patch(ctx, &node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))).To(Succeed())
	}).WithContext(ctx).Should(Succeed())
}

// cordon keeps new pods away from a node until the spec ends.
func cordon(ctx context.Context, name string) {
	GinkgoHelper()
	By("cordon " + name)
	changeNode(ctx, name, func(node *corev1.Node) { node.Spec.Unschedulable = true })
	DeferCleanup(func(ctx context.Context) { uncordon(ctx, name) })
}

func uncordon(ctx context.Context, name string) {
	GinkgoHelper()
	changeNode(ctx, name, func(node *corev1.Node) { node.Spec.Unschedulable = false })
}

// declareOut taints a node out-of-service, as an administrator does with a machine that is off, until the spec ends.
func declareOut(ctx context.Context, name string) {
	GinkgoHelper()
	By("declare " + name + " out of service")
	taint := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	changeNode(ctx, name, func(node *corev1.Node) { node.Spec.Taints = append(node.Spec.Taints, taint) })
	DeferCleanup(func(ctx context.Context) {
		changeNode(ctx, name, func(node *corev1.Node) {
			var kept []corev1.Taint
			for _, t := range node.Spec.Taints {
				if t.Key != taint.Key {
					kept = append(kept, t)
				}
			}
			node.Spec.Taints = kept
		})
	})
}

// awaitPlugins waits until the nodes' CNI plugin can reach the API server. Its token is bound to its DaemonSet's pod, which is deleted
// with the node, and an ADD with a token that is not valid hangs for two minutes.
func awaitPlugins(ctx context.Context) {
	GinkgoHelper()
	for _, node := range []string{first, second} {
		Eventually(func() error {
			command := exec.CommandContext(ctx, clusterCommand, "exec", node, "--", kubectl(),
				"--kubeconfig=/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig", "--namespace="+poolNamespace, "get", "ippools")
			command.Dir = repository
			out, err := command.CombinedOutput()
			if err != nil {
				return fmt.Errorf("the plugin of %s: %w: %s", node, err, out)
			}
			return nil
		}).WithContext(ctx).Should(Succeed())
	}
}

// replicaElsewhere has a replica of the manager run on another node than one that is to be killed. What pods showed only a replica knows that watched them:
// where both die with the node, its pods' addresses are released once every node was queried, which takes longer.
func replicaElsewhere(ctx context.Context, node string) {
	GinkgoHelper()
	By("have a replica of the manager elsewhere than on " + node)
	replicas := managerPods(ctx)
	if !slices.ContainsFunc(replicas, func(pod corev1.Pod) bool { return pod.Spec.NodeName != node }) && len(replicas) > 1 {
		Expect(admin.Delete(ctx, &replicas[0])).To(Succeed())
	}
	Eventually(managerPods).WithContext(ctx).WithTimeout(installSoon).Should(ContainElement(And(HaveField("Spec.NodeName", Not(BeElementOf("", node))),
		HaveField("Status.Conditions", ContainElement(And(HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionTrue)))))))
}
