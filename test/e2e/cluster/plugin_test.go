// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	whereaboutsv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// pluginSpecs show what kubectl holdfast says of this very cluster; the transcript has all of its output.
var pluginSpecs = map[string]guardedSpec{
	"kubectl holdfast distinguishes a healthy cluster from one with a frozen node, one without a manager and one with a leak": {
		capacity: 2, core: true, nodes: true, play: pluginReports,
	},
}

// The plugin's exit codes.
const (
	fine  = 0
	found = 2
)

// holdfast runs the plugin as kubectl would, wants an exit code, and gives what was printed.
func holdfast(ctx context.Context, want int, args ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx, "bin/kubectl-holdfast", args...)
	command.Dir, command.Env = repository, append(os.Environ(), "KUBECONFIG="+kubeconfig)
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		Expect(err).NotTo(HaveOccurred())
	}
	name := "kubectl holdfast " + strings.Join(args, " ")
	transcribe(fmt.Sprintf("$ %s\n%s(exit code %d)\n\n", name, out, command.ProcessState.ExitCode()))
	Expect(command.ProcessState.ExitCode()).To(Equal(want), "%s:\n%s", name, out)
	return string(out)
}

// transcript is where the plugin's output can be read after the run, from the top of the repository.
const transcript = componentsFolder + "/plugin.txt"

func transcribe(text string) {
	GinkgoHelper()
	file, err := os.OpenFile(filepath.Join(repository, transcript), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	Expect(err).NotTo(HaveOccurred())
	_, err = file.WriteString(text)
	Expect(errors.Join(err, file.Close())).To(Succeed())
}

func heading(text string) {
	GinkgoHelper()
	By(text)
	transcribe("## " + text + "\n\n")
}

func pluginReports(ctx context.Context, w *world) {
	Expect(os.MkdirAll(filepath.Join(repository, componentsFolder), 0o755)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(repository, transcript), nil, 0o600)).To(Succeed())
	pod := w.pinned(ctx, "lone", first)
	_, address := w.awaitPod(ctx, pod.Name)
	w.pluginReportsHealth(ctx, address.String())
	w.pluginReportsLeak(ctx)
	pluginReportsNoManager(ctx)
	w.pluginReportsFrozenNode(ctx, pod, address.String())
}

func (w *world) pluginReportsHealth(ctx context.Context, address string) {
	GinkgoHelper()
	heading("a healthy cluster")
	Eventually(func() string { return strings.Join(w.records(ctx), " ") }).WithContext(ctx).Should(ContainSubstring("lone"))
	Expect(holdfast(ctx, fine, "explain", "pod/lone", "-n", w.namespace)).To(And(HavePrefix("NOT HELD"), ContainSubstring(address)))
	Expect(holdfast(ctx, fine, "who", address)).To(And(ContainSubstring(w.namespace+"/lone"), ContainSubstring("InUse")))
	Expect(holdfast(ctx, fine, "history", address)).To(ContainSubstring("Recorded"))
	Expect(holdfast(ctx, fine, "audit")).To(ContainSubstring("No inconsistencies found"))
	Expect(holdfast(ctx, fine, "uninstall", "--dry-run")).To(ContainSubstring(manager))
	var healthy string
	Eventually(func(g Gomega) {
		// What other specs did on purpose is in events, which may be late.
		var events corev1.EventList
		g.Expect(admin.List(ctx, &events, client.MatchingFields{"reason": string(v1alpha1.ReasonUnsafeReleaseRefused)})).To(Succeed())
		for i := range events.Items {
			g.Expect(client.IgnoreNotFound(admin.Delete(ctx, &events.Items[i]))).To(Succeed())
		}
		healthy = runFor(ctx, g, "bin/kubectl-holdfast", "doctor", "-n", w.namespace)
		g.Expect(healthy).To(ContainSubstring("0 FAIL")) // after a spec that froze a node, both replicas may be on the other
	}).WithContext(ctx).Should(Succeed())
	transcribe("$ kubectl holdfast doctor -n " + w.namespace + "\n" + healthy + "\n")
}

// pluginReportsLeak has an entry that no pod and no sandbox has, and takes it away by hand.
func (w *world) pluginReportsLeak(ctx context.Context) {
	GinkgoHelper()
	heading("a leak")
	const sandbox = "sandbox-without-pod"
	leaked := w.address(2)
	patch := fmt.Sprintf(`{"spec":{"allocations":{"2":{"id":%q,"podref":"%s/gone-0","ifname":"net1"}}}}`, sandbox, w.namespace)
	Expect(admin.Patch(ctx, w.pool(ctx), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	Eventually(explanation(ctx, "orphan-"+sandbox)).WithContext(ctx).ShouldNot(BeEmpty())
	Expect(holdfast(ctx, found, "audit")).To(And(ContainSubstring("Leak"), ContainSubstring(leaked.String())))
	Expect(holdfast(ctx, found, "explain", "ipa/orphan-"+sandbox)).To(HavePrefix("HELD "))
	Expect(holdfast(ctx, fine, "release", leaked.String(), "--dry-run")).To(ContainSubstring(sandbox))
	Expect(holdfast(ctx, fine, "release", leaked.String(), "--as-manager", "--force", "--reason", "the suite of this cluster made it", "--confirm", leaked.String())).
		To(ContainSubstring("Released " + leaked.String()))
	Eventually(w.entries).WithContext(ctx).Should(HaveLen(1))
	Expect(holdfast(ctx, fine, "history", leaked.String())).To(ContainSubstring("released " + leaked.String()))
}

func pluginReportsNoManager(ctx context.Context) {
	GinkgoHelper()
	heading("no manager")
	DeferCleanup(func(ctx context.Context) { scaleManager(ctx, 2) })
	noManager(ctx)
	Expect(holdfast(ctx, found, "doctor")).To(And(ContainSubstring("FAIL"), ContainSubstring("manager replicas")))
	scaleManager(ctx, 2)
}

func (w *world) pluginReportsFrozenNode(ctx context.Context, pod *corev1.Pod, address string) {
	GinkgoHelper()
	heading("a frozen node")
	breakNode(ctx, "freeze", first)
	forceDelete(ctx, pod)
	Eventually(explanation(ctx, string(pod.UID))).WithContext(ctx).ShouldNot(BeEmpty())
	Expect(holdfast(ctx, found, "explain", "pod/lone", "-n", w.namespace)).To(And(HavePrefix("HELD "), ContainSubstring("WHAT WOULD END IT")))
	Expect(holdfast(ctx, fine, "who", address)).To(ContainSubstring("Held"))
	mendNode(ctx, "thaw", first)
	w.isGone(ctx, pod)
}

// pool is that of the world's only network.
func (w *world) pool(ctx context.Context) *whereaboutsv1alpha1.IPPool {
	GinkgoHelper()
	var pools whereaboutsv1alpha1.IPPoolList
	Expect(admin.List(ctx, &pools, client.InNamespace(poolNamespace))).To(Succeed())
	for i := range pools.Items {
		if pools.Items[i].Spec.Range == w.subnet.String() {
			return &pools.Items[i]
		}
	}
	Fail("no pool has the range " + w.subnet.String())
	return nil
}
