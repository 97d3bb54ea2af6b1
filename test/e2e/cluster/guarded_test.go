// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// guardedSpecs are what Holdfast has to live through; each ends with no pod left, and is then judged like every other.
var guardedSpecs = map[string]guardedSpec{
	"a StatefulSet churns in a pool with exactly as many addresses while the manager is disturbed": {capacity: 6, core: true, play: churn},
	"a sandbox's process is killed":                                             {capacity: 1, core: true, nodes: true, versions: Label(interfaces), play: sandboxKilled},
	"containerd is restarted while pods are deleted":                            {capacity: 4, nodes: true, play: containerdRestarted},
	"Jobs complete in a pool that has fewer addresses than Jobs":                {capacity: 1, core: true, play: completedJobs},
	"a namespace is deleted":                                                    {capacity: 4, core: true, play: namespaceDeleted},
	"a node is drained":                                                         {capacity: 3, nodes: true, play: drained},
	"a node reboots under its pods":                                             {capacity: 6, nodes: true, versions: Label(interfaces), play: rebooted},
	"whereabouts' token names no node, so that its own CNI DEL is not let past": {capacity: 2, nodes: true, play: namelessToken},
}

type guardedSpec struct {
	capacity int
	// core and nodes are the labels of the spec.
	core, nodes bool
	// versions are labels by which specs are left out where the API server cannot show them.
	versions Labels
	play     func(ctx context.Context, w *world)
}

// churn deletes every pod again and again. Before the pods are back, every agent is killed, and something happens to the manager.
func churn(ctx context.Context, w *world) {
	w.statefulSet(ctx, "web", 6, nil)
	w.awaitAll(ctx, "web", 6)
	for _, disturbance := range []struct {
		what string
		do   func(ctx context.Context)
	}{
		{"nothing", func(context.Context) {}},
		{"the manager's pods are killed", killManagers},
		{"there is no manager for a while", withoutManager},
		{"the serving certificate is issued again", rotate},
		{"the manager is upgraded", upgrade},
	} {
		By("delete every pod, and: " + disturbance.what)
		var old []types.UID
		for _, pod := range w.pods(ctx) {
			old = append(old, pod.UID)
			Expect(admin.Delete(ctx, &pod)).To(Succeed())
		}
		killAgents(ctx)
		disturbance.do(ctx)
		for i := range 6 {
			w.awaitPod(ctx, fmt.Sprintf("web-%d", i), old...)
		}
	}
}

func killManagers(ctx context.Context) {
	GinkgoHelper()
	Expect(admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(system), managerLabels,
		client.GracePeriodSeconds(0))).To(Succeed())
}

func withoutManager(ctx context.Context) {
	GinkgoHelper()
	noManager(ctx)
	scaleManager(ctx, 2)
}

// noManager stops every replica and waits until the last has served its last call.
func noManager(ctx context.Context) {
	GinkgoHelper()
	scaleManager(ctx, 0)
	Eventually(func(g Gomega) {
		var pods corev1.PodList
		g.Expect(admin.List(ctx, &pods, client.InNamespace(system), managerLabels)).To(Succeed())
		g.Expect(pods.Items).To(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
}

func scaleManager(ctx context.Context, replicas int32) {
	GinkgoHelper()
	changeManager(ctx, func(deployment *appsv1.Deployment) { deployment.Spec.Replicas = &replicas })
}

// changeManager changes the manager's Deployment and waits until it is as asked.
func changeManager(ctx context.Context, change func(*appsv1.Deployment)) {
	GinkgoHelper()
	key := client.ObjectKey{Namespace: system, Name: manager}
	Eventually(func(g Gomega) {
		var deployment appsv1.Deployment
		g.Expect(admin.Get(ctx, key, &deployment)).To(Succeed())
		change(&deployment)
		g.Expect(admin.Update(ctx, &deployment)).To(Succeed())
	}).WithContext(ctx).Should(Succeed())
	awaitManager(ctx)
}

// awaitManager waits until the manager's Deployment is rolled out.
func awaitManager(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var deployment appsv1.Deployment
		g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: system, Name: manager}, &deployment)).To(Succeed())
		g.Expect(deployment.Status.ObservedGeneration).To(Equal(deployment.Generation))
		g.Expect(deployment.Status.UpdatedReplicas).To(Equal(*deployment.Spec.Replicas))
		g.Expect(deployment.Status.AvailableReplicas).To(Equal(*deployment.Spec.Replicas))
		g.Expect(deployment.Status.Replicas).To(Equal(*deployment.Spec.Replicas))
	}).WithContext(ctx).WithTimeout(installSoon).Should(Succeed())
}

// rotate takes the serving certificate away; cert-manager issues another one, and the manager reads it without a restart.
func rotate(ctx context.Context) {
	GinkgoHelper()
	key := client.ObjectKey{Namespace: system, Name: "holdfast-webhook-cert"}
	var before corev1.Secret
	Expect(admin.Get(ctx, key, &before)).To(Succeed())
	Expect(admin.Delete(ctx, &before)).To(Succeed())
	Eventually(func(g Gomega) {
		var after corev1.Secret
		g.Expect(admin.Get(ctx, key, &after)).To(Succeed())
		g.Expect(after.Data[corev1.TLSCertKey]).NotTo(BeEmpty())
		g.Expect(after.Data[corev1.TLSCertKey]).NotTo(Equal(before.Data[corev1.TLSCertKey]))
	}).WithContext(ctx).Should(Succeed())
}

// upgrade rolls the manager's pods over, as a new version does.
func upgrade(ctx context.Context) {
	GinkgoHelper()
	changeManager(ctx, func(deployment *appsv1.Deployment) {
		deployment.Spec.Template.Labels["holdfast.dev/suite-revision"] = strconv.FormatInt(deployment.Generation, 10)
	})
}

// rebooted starts a node again under its pods. CNI DEL frees their addresses, and the CNI ADDs of their next sandboxes give them out in any order. No
// record keeps an address that its pod had before, or is in a conflict.
func rebooted(ctx context.Context, w *world) {
	pods := map[string]string{}
	for i := range 6 {
		pod := w.pinned(ctx, fmt.Sprintf("lone-%d", i), first)
		pods[string(pod.UID)] = pod.Name
	}
	for _, name := range pods {
		w.awaitPod(ctx, name)
	}
	// sandboxes are those on record, by address, and by the name of the pod.
	sandboxes := func(g Gomega) map[string]string {
		var records v1alpha1.IPAllocationList
		g.Expect(admin.List(ctx, &records)).To(Succeed())
		found := map[string]string{}
		for i := range records.Items {
			if record := &records.Items[i]; pods[record.Name] != "" {
				g.Expect(record.Status.State.IsInUse()).To(BeTrue(), "the record of %s is in state %s", pods[record.Name], record.Status.State)
				g.Expect(record.Spec.Addresses).To(HaveLen(1), "the record of %s", pods[record.Name])
				found[pods[record.Name]] = record.Spec.Addresses[0].IP + " " + record.Spec.Addresses[0].SandboxID
			}
		}
		g.Expect(found).To(HaveLen(len(pods)))
		return found
	}
	var before, after map[string]string
	Eventually(func(g Gomega) { before = sandboxes(g) }).WithContext(ctx).Should(Succeed())
	breakNode(ctx, "reboot", first)
	awaitReady(ctx, first, true)
	By("wait until each record has the address of the next sandbox alone, and no conflict")
	Eventually(func(g Gomega) {
		after = sandboxes(g)
		for name, sandbox := range after {
			g.Expect(sandbox).NotTo(HaveSuffix(strings.Fields(before[name])[1]), "%s has its sandbox from before the reboot", name)
		}
	}).WithContext(ctx).WithTimeout(nodeSoon).Should(Succeed())
	AddReportEntry("before and after the reboot", fmt.Sprint(before, after))
}

// sandboxKilled kills the process that keeps a pod's sandbox; the kubelet makes another one for the same pod.
func sandboxKilled(ctx context.Context, w *world) {
	pod := w.pinned(ctx, "lone", first)
	_, address := w.awaitPod(ctx, pod.Name)
	before := w.entries(ctx)
	By("kill the sandbox's process")
	Expect(syscall.Kill(pauseOf(pod.UID), syscall.SIGKILL)).To(Succeed())
	Eventually(w.entries).WithContext(ctx).Should(And(HaveLen(1), Not(Equal(before))), "the entry names the next sandbox")
	_, again := w.awaitPod(ctx, pod.Name)
	Expect(again).To(Equal(address))
}

// pauseOf finds the process of a pod's sandbox among those of this machine.
func pauseOf(uid types.UID) int {
	GinkgoHelper()
	return processOf("/pause", string(uid))
}

// processOf finds the process of a container by its program and a part of its cgroup's path.
func processOf(program, cgroup string) int {
	GinkgoHelper()
	processes, err := os.ReadDir("/proc")
	Expect(err).NotTo(HaveOccurred())
	for _, process := range processes {
		pid, err := strconv.Atoi(process.Name())
		if err != nil {
			continue
		}
		command, _ := os.ReadFile(filepath.Join("/proc", process.Name(), "cmdline"))
		cgroups, _ := os.ReadFile(filepath.Join("/proc", process.Name(), "cgroup"))
		if strings.HasPrefix(string(command), program+"\x00") && strings.Contains(string(cgroups), cgroup) {
			return pid
		}
	}
	Fail("no process of " + program + " in " + cgroup)
	return 0
}

// withoutControlLoop stops a node's pod control loop where it stands; when the spec ends it is killed, and its successor has
// missed what it missed (whereabouts#546).
func withoutControlLoop(node string) {
	GinkgoHelper()
	By("let whereabouts' control loop of " + node + " hang")
	pid := processOf("/whereabouts-controlloop", "/"+node+"/")
	Expect(syscall.Kill(pid, syscall.SIGSTOP)).To(Succeed())
	DeferCleanup(func() { Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed()) })
}

func containerdRestarted(ctx context.Context, w *world) {
	w.statefulSet(ctx, "web", 4, nil)
	w.awaitAll(ctx, "web", 4)
	var old []types.UID
	for _, pod := range w.pods(ctx) {
		old = append(old, pod.UID)
		Expect(admin.Delete(ctx, &pod)).To(Succeed())
	}
	DeferCleanup(func(ctx context.Context) { power(ctx, "containerd", "start", first) })
	power(ctx, "containerd", "stop", first)
	power(ctx, "containerd", "start", first)
	for i := range 4 {
		w.awaitPod(ctx, fmt.Sprintf("web-%d", i), old...)
	}
}

// completedJobs runs three Jobs with one address between them. Their pods stay (whereabouts#598).
func completedJobs(ctx context.Context, w *world) {
	const jobs = 3
	for i := range jobs {
		template := w.pod("job", "complete")
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprintf("job-%d", i)}, Spec: batchv1.JobSpec{Template: template}}
		Expect(admin.Create(ctx, job)).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			Expect(client.IgnoreNotFound(admin.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))).To(Succeed())
		})
	}
	By("wait until all have completed")
	Eventually(func(g Gomega) {
		var done int
		for _, pod := range w.pods(ctx) {
			if pod.Status.Phase == corev1.PodSucceeded {
				done++
			}
		}
		g.Expect(done).To(Equal(jobs))
	}).WithContext(ctx).WithTimeout(deleteSoon).Should(Succeed())
	Eventually(w.entries).WithContext(ctx).Should(BeEmpty(), "the pods stay, their addresses do not")
	Expect(admin.DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(w.namespace), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
}

func namespaceDeleted(ctx context.Context, w *world) {
	w.statefulSet(ctx, "web", 4, nil)
	w.awaitAll(ctx, "web", 4)
	By("delete the namespace")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	Expect(admin.Delete(ctx, namespace)).To(Succeed())
	Eventually(func() error { return admin.Get(ctx, client.ObjectKeyFromObject(namespace), namespace) }).WithContext(ctx).
		WithTimeout(deleteSoon).Should(MatchError(ContainSubstring("not found")))
}

func drained(ctx context.Context, w *world) {
	w.statefulSet(ctx, "web", 3, onFirst)
	w.awaitAll(ctx, "web", 3)
	DeferCleanup(func(ctx context.Context) { uncordon(ctx, first) })
	By("drain " + first)
	run(ctx, kubectl(), "drain", first, "--ignore-daemonsets", "--pod-selector=app=web", "--timeout="+soon.String())
	for i := range 3 {
		name := fmt.Sprintf("web-%d", i)
		Eventually(func(g Gomega) {
			pod, _ := w.awaitPod(ctx, name)
			g.Expect(pod.Spec.NodeName).To(Equal(second))
		}).WithContext(ctx).Should(Succeed())
	}
}

// namelessToken gives a node's plugin a token that is bound to no pod: its CNI DEL is refused like any client's removal of an
// address in use, the plugin passes over that, and what is left is released once the kubelet has ended the pod.
func namelessToken(ctx context.Context, w *world) {
	useNamelessToken(ctx)
	w.statefulSet(ctx, "web", 2, onFirst)
	w.awaitAll(ctx, "web", 2)
}

// useNamelessToken gives the first node's plugin such a token until the spec ends.
func useNamelessToken(ctx context.Context) {
	GinkgoHelper()
	const file = "/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig"
	token := strings.TrimSpace(run(ctx, kubectl(), "-n", poolNamespace, "create", "token", "whereabouts", "--duration=1h"))
	before := onNode(ctx, first, "cat "+file)
	DeferCleanup(func(ctx context.Context) { write(ctx, first, file, before) })
	var lines []string
	for line := range strings.Lines(before) {
		if head, _, ok := strings.Cut(line, "token:"); ok {
			line = head + "token: " + token + "\n"
		}
		lines = append(lines, line)
	}
	Expect(strings.Join(lines, "")).To(ContainSubstring(token))
	write(ctx, first, file, strings.Join(lines, ""))
}

// write writes a file of a node.
func write(ctx context.Context, node, file, text string) {
	GinkgoHelper()
	onNode(ctx, node, "cat >"+file+" <<'END'\n"+strings.TrimSuffix(text, "\n")+"\nEND")
}
