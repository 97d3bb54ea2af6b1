// SPDX-License-Identifier: Apache-2.0

package seatbelts_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/internal/agent"
	"github.com/holdfast-dev/holdfast/internal/handshake"
	"github.com/holdfast-dev/holdfast/internal/sandbox"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// refusals are how often each of our policies has refused something, as the API server counts it.
func refusals(ctx context.Context) []string {
	GinkgoHelper()
	clientset, err := kubernetes.NewForConfig(plane.Config())
	Expect(err).NotTo(HaveOccurred())
	served, err := clientset.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	var found []string
	for line := range strings.Lines(string(served)) {
		if strings.HasPrefix(line, "apiserver_validating_admission_policy_check_total{") && strings.Contains(line, `enforcement_action="deny"`) {
			found = append(found, line)
		}
	}
	Expect(found).NotTo(BeEmpty(), "the suite's probes were refused, so the API server no longer counts under this name")
	slices.Sort(found)
	return found
}

// machine is a runtime whose sandboxes the spec changes.
type machine struct {
	mu        sync.Mutex
	sandboxes []handshake.Sandbox
	broken    bool
}

func (m *machine) List(context.Context, sandbox.Asked) (*handshake.Listing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken {
		return nil, &sandbox.Error{Reason: v1alpha1.ReasonRuntimeUnreachable, Err: os.ErrDeadlineExceeded}
	}
	began := time.Now()
	return &handshake.Listing{Began: began, Ended: time.Now(), TellsNamespaces: true, Runtime: "test", Sandboxes: slices.Clone(m.sandboxes)}, nil
}

func (m *machine) change(broken bool, sandboxes ...handshake.Sandbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken, m.sandboxes = broken, sandboxes
}

// startAgent runs the real agent under the token of a pod of its node. It gives the pod's sandbox.
func startAgent(ctx context.Context, node string, runtime sandbox.Lister) handshake.Sandbox {
	GinkgoHelper()
	pod, identity := agentPodOn(ctx, node)
	direct, err := client.NewWithWatch(identity, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	dir := GinkgoT().TempDir()
	files := agent.MachineFiles{MachineID: filepath.Join(dir, "machine-id"), BootID: filepath.Join(dir, "boot-id"), SystemUUID: filepath.Join(dir, "absent")}
	Expect(os.WriteFile(files.MachineID, []byte(node+"-machine\n"), 0o600)).To(Succeed())
	Expect(os.WriteFile(files.BootID, []byte(node+"-boot\n"), 0o600)).To(Succeed())
	clientset, err := kubernetes.NewForConfig(identity)
	Expect(err).NotTo(HaveOccurred())
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clientset.EventsV1()})
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	Expect(broadcaster.StartRecordingToSinkWithContext(running)).To(Succeed())
	started, err := agent.New(agent.Options{NodeName: node, Client: direct, Lister: runtime, Machine: files,
		Recorder: broadcaster.NewRecorder(scheme, agent.Name), LeaseNamespace: agentNamespace, ListInterval: 100 * time.Millisecond,
		Settings: handshake.Settings{SandboxCreationMax: time.Hour}, Log: GinkgoLogr})
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- started.Start(running) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(Succeed()))
		broadcaster.Shutdown()
	})
	return handshake.Sandbox{ID: "of-the-agent", State: handshake.StateReady, Pod: handshake.Pod{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}}
}

// answered is the last word of a Node in a record.
func answered(ctx context.Context, record *v1alpha1.IPAllocation, uid types.UID) func() v1alpha1.Answer {
	return func() v1alpha1.Answer {
		for _, given := range stored(ctx, record).Status.Answers {
			if given.NodeUID == uid {
				return given
			}
		}
		return v1alpha1.Answer{}
	}
}

var _ = Describe("With the policies, the real agent", func() {
	It("answers, explains its silence, claims and acknowledges", func(ctx context.Context) {
		const node = "node-of-the-agent"
		uid := createNode(ctx, node, kubeletOf(node))
		before := refusals(ctx)
		runtime := &machine{}
		own := startAgent(ctx, node, runtime)

		record := newRecord(ctx, node, func(r *v1alpha1.IPAllocation) { r.Spec.Marks[0].NodeUID, r.Spec.Marks[0].BootID = uid, node+"-boot" })
		id := record.Spec.Sandboxes[0].ID
		lives := handshake.Sandbox{ID: id, State: handshake.StateReady, Pod: handshake.Pod{UID: types.UID(record.Name), Namespace: apps, Name: "web-0"}}
		runtime.change(false, own, lives)
		Eventually(ctx, answered(ctx, record, uid)).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))

		By("its runtime being gone for a while")
		runtime.change(true)
		explained := func(status metav1.ConditionStatus) func() []metav1.Condition {
			GinkgoHelper()
			return func() []metav1.Condition {
				return slices.DeleteFunc(stored(ctx, record).Status.Conditions, func(c metav1.Condition) bool {
					return c.Type != v1alpha1.AnsweredCondition || c.Status != status
				})
			}
		}
		Eventually(ctx, explained(metav1.ConditionFalse)).Should(HaveLen(1))
		Eventually(ctx, func(g Gomega) {
			var list eventsv1.EventList
			g.Expect(admin.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault))).To(Succeed())
			g.Expect(list.Items).To(ContainElement(And(HaveField("Regarding.Name", node), HaveField("Reason", string(v1alpha1.ReasonRuntimeUnreachable)))))
		}).Should(Succeed())

		By("the sandbox being gone")
		runtime.change(false, own)
		Eventually(ctx, answered(ctx, record, uid)).Should(HaveField("Verdict", v1alpha1.VerdictReadyForRelease))
		Eventually(ctx, explained(metav1.ConditionTrue)).Should(HaveLen(1))

		By("all nodes being asked")
		orphan := newRecord(ctx, "")
		lives.ID, lives.Pod.UID = orphan.Spec.Sandboxes[0].ID, types.UID(orphan.Name)
		runtime.change(false, own, lives)
		Eventually(ctx, answered(ctx, orphan, uid)).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))
		lease := &coordinationv1.Lease{}
		Eventually(ctx, func() error {
			return admin.Get(ctx, client.ObjectKey{Namespace: agentNamespace, Name: v1alpha1.AgentLeaseName(node)}, lease)
		}).Should(Succeed())
		Expect(lease.Annotations).To(HaveKeyWithValue(v1alpha1.AcknowledgedNodeUIDAnnotation, string(uid)))

		Expect(refusals(ctx)).To(Equal(before), "a policy refused something of an agent's ordinary work")
	}, SpecTimeout(2*soon))
})

// startManager runs the real manager under the token of its account.
func startManager(ctx context.Context) {
	GinkgoHelper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	dir := GinkgoT().TempDir()
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		Expect(os.WriteFile(filepath.Join(dir, name), content, 0o600)).To(Succeed())
	}
	port, err := process.FreePort()
	Expect(err).NotTo(HaveOccurred())
	identity, err := plane.ServiceAccountConfig(ctx, managerNamespace, managerAccount, nil)
	Expect(err).NotTo(HaveOccurred())
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	mgr, err := app.New(running, identity, &configv1alpha1.ManagerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: configv1alpha1.GroupVersion.String(), Kind: "ManagerConfiguration"},
		Evidence: configv1alpha1.EvidenceKubelet,
		Delays: configv1alpha1.Delays{ReleaseDelay: &metav1.Duration{Duration: time.Second}, GracePeriodSlack: &metav1.Duration{},
			SandboxCreationMax: &metav1.Duration{Duration: 2 * time.Second}},
		Server: configv1alpha1.Server{WebhookHost: "127.0.0.1", WebhookPort: new(int32(port)), CertDir: dir,
			MetricsBindAddress: "0", HealthProbeBindAddress: "0"},
		Controller: configv1alpha1.Controller{LeaderElection: new(false)},
	}, app.Options{Log: GinkgoLogr})
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive())
	})
}

const (
	poolNamespace, poolName = "kube-system", "10.77.0.0-24"
	address                 = "10.77.0.1"
)

// hold gives a pod the address, as whereabouts and Multus do, and lets it run.
func hold(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	ref := pod.Namespace + "/" + pod.Name
	entry, err := json.Marshal(map[string]any{"spec": map[string]any{"allocations": map[string]any{
		"1": wbv1alpha1.IPAllocation{ContainerID: "sandbox-" + string(pod.UID), PodRef: ref, IfName: "net1"}}}})
	Expect(err).NotTo(HaveOccurred())
	pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: poolName}}
	Expect(admin.Patch(ctx, pool, client.RawPatch(types.MergePatchType, entry))).To(Succeed())
	Expect(admin.Create(ctx, &wbv1alpha1.OverlappingRangeIPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: address},
		Spec: wbv1alpha1.OverlappingRangeIPReservationSpec{PodRef: ref, IfName: "net1"}})).To(Succeed())
	shown, err := json.Marshal([]nadv1.NetworkStatus{{Name: apps + "/net", Interface: "net1", IPs: []string{address}}})
	Expect(err).NotTo(HaveOccurred())
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{nadv1.NetworkStatusAnnot: string(shown)}}})
	Expect(err).NotTo(HaveOccurred())
	Expect(patchPod(ctx, admin, pod, itself, string(patch))).To(Succeed())
}

var _ = Describe("With the policies, the real manager", func() {
	It("stamps late, records, explains, releases and lets go", func(ctx context.Context) {
		pool := &wbv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Namespace: poolNamespace, Name: poolName},
			Spec: wbv1alpha1.IPPoolSpec{Range: "10.77.0.0/24", Allocations: map[string]wbv1alpha1.IPAllocation{}}}
		Expect(admin.Create(ctx, pool)).To(Succeed())
		before := refusals(ctx)
		pod := newPod(ctx, func(p *corev1.Pod) { p.Finalizers = []string{foreign}; delete(p.Labels, v1alpha1.GuardedLabel) })
		hold(ctx, pod)
		startManager(ctx)
		live := func(g Gomega) *corev1.Pod {
			found := &corev1.Pod{}
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), found)).To(Succeed())
			return found
		}
		Eventually(ctx, func(g Gomega) {
			g.Expect(live(g).Finalizers).To(ConsistOf(foreign, v1alpha1.Finalizer))
			g.Expect(live(g).Labels).To(HaveKeyWithValue(v1alpha1.GuardedLabel, v1alpha1.GuardedLabelValue))
			record := &v1alpha1.IPAllocation{}
			g.Expect(admin.Get(ctx, client.ObjectKey{Name: string(pod.UID)}, record)).To(Succeed())
			g.Expect(record.Spec.Addresses).To(HaveLen(1))
			g.Expect(record.Spec.Sandboxes[0].Node).NotTo(BeNil())
		}).Should(Succeed())

		By("the pod being deleted, and its kubelet silent")
		Expect(admin.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(live(g).Status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo(v1alpha1.IPsReleasedCondition)), HaveField("Message", Not(BeEmpty())))))
			record := &v1alpha1.IPAllocation{}
			g.Expect(admin.Get(ctx, client.ObjectKey{Name: string(pod.UID)}, record)).To(Succeed())
			g.Expect(record.Status.State).To(Equal(v1alpha1.StateHeld))
		}).Should(Succeed())

		By("the kubelet finishing it")
		ended := client.RawPatch(types.StrategicMergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))
		Expect(kubelet.Status().Patch(ctx, pod.DeepCopy(), ended, client.FieldOwner("kubelet"))).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(live(g).Finalizers).To(ConsistOf(foreign))
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
			g.Expect(pool.Spec.Allocations).To(BeEmpty())
			g.Expect(admin.Get(ctx, client.ObjectKey{Name: string(pod.UID)}, &v1alpha1.IPAllocation{})).To(Satisfy(apierrors.IsNotFound))
		}).Should(Succeed())
		Expect(refusals(ctx)).To(Equal(before), "a policy refused something of the manager's ordinary work")
	}, SpecTimeout(3*soon))
})
