// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"
	"k8s.io/cri-client/pkg/fake"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// fakeRuntime serves the CRI at a socket as a spec defines.
type fakeRuntime struct {
	*fake.RemoteRuntime
	name, socket string
	server       *grpc.Server
}

// newFakeRuntime calls itself by a name that this suite's agents know, or not.
func newFakeRuntime(name string) *fakeRuntime {
	GinkgoHelper()
	f := &fakeRuntime{name: name, socket: filepath.Join(GinkgoT().TempDir(), "runtime.sock")}
	f.serve()
	DeferCleanup(func() { f.Stop() })
	return f
}

// serve starts it, or after Stop another one in its place, which has nothing yet.
func (f *fakeRuntime) serve() {
	GinkgoHelper()
	f.RemoteRuntime, f.server = fake.NewFakeRemoteRuntime(), grpc.NewServer(grpc.WaitForHandlers(true))
	f.RuntimeService.FakeStatus = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
		{Type: runtimeapi.NetworkReady, Status: true},
	}}
	runtimeapi.RegisterRuntimeServiceServer(f.server, f)
	listener, err := net.Listen("unix", f.socket)
	Expect(err).NotTo(HaveOccurred())
	go func() { _ = f.server.Serve(listener) }()
}

// Stop returns once no call is served any more.
func (f *fakeRuntime) Stop() { f.server.Stop() }

// Version gives this runtime's own name: the library's is one variable for all of them.
func (f *fakeRuntime) Version(ctx context.Context, request *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	version, err := f.RemoteRuntime.Version(ctx, request)
	if err != nil {
		return nil, err
	}
	version.RuntimeName = f.name
	return version, nil
}

// have sets what the runtime lists.
func (f *fakeRuntime) have(sandboxes ...*apitest.FakePodSandbox) {
	f.RuntimeService.SetFakeSandboxes(sandboxes)
}

func listed(id string, p pod, state runtimeapi.PodSandboxState) *apitest.FakePodSandbox {
	s := &apitest.FakePodSandbox{}
	s.Id, s.State = id, state
	s.Metadata = &runtimeapi.PodSandboxMetadata{Name: p.name, Namespace: p.namespace, Uid: string(p.uid)}
	return s
}

const (
	isReady  = runtimeapi.PodSandboxState_SANDBOX_READY
	notReady = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
)

var _ = Describe("A runtime that is at fault", func() {
	var f *fakeRuntime
	var w *world
	var own *apitest.FakePodSandbox
	var p pod
	var record string
	const id = "5a1db0x"

	// refused: a query gets no response, for that reason, in condition, event and metric. It gives what reads the response to it.
	refused := func(ctx context.Context, reason v1alpha1.Reason) func() (response, error) {
		GinkgoHelper()
		got := w.query(ctx, record, id)
		Eventually(ctx, w.responding(ctx)).Should(Equal(notResponding(reason)))
		Eventually(ctx, w.reasons(ctx)).Should(ContainElement(string(reason)))
		Eventually(ctx, w.withoutResponse(ctx, reason)).Should(Equal(1.0))
		Consistently(ctx, got).Should(Equal(response{}))
		return got
	}

	start := func(ctx context.Context, name string) {
		GinkgoHelper()
		f = newFakeRuntime(name)
		w = newWorld(ctx, f.socket, long)
		own = listed("0wn", w.own(), isReady)
		p = newPod()
		record = string(p.uid)
		f.have(own, listed(id, p, isReady))
		w.startAgent(ctx)
		w.ready(ctx)
	}

	It("gives no response while its list fails, and one afterwards", func(ctx context.Context) {
		start(ctx, "cri-o")
		for range 10_000 { // more than the spec has time for
			f.RuntimeService.InjectError("ListPodSandbox", errors.New("the store is locked"))
		}
		got := refused(ctx, v1alpha1.ReasonListFailed)
		f.RuntimeService.Lock()
		f.RuntimeService.Errors = map[string][]error{}
		f.RuntimeService.Unlock()
		Eventually(ctx, got).Should(Equal(response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, p.uid}))
		Eventually(ctx, w.responding(ctx)).Should(Equal(isResponding))
	}, SpecTimeout(specTimeout))

	It("gives no response while it is not ready: it may not know yet what it has", func(ctx context.Context) {
		start(ctx, "cri-o")
		f.RuntimeService.Lock()
		f.RuntimeService.FakeStatus.Conditions[0].Status = false
		f.RuntimeService.Unlock()
		f.have(own)
		refused(ctx, v1alpha1.ReasonListFailed)
	}, SpecTimeout(specTimeout))

	It("that lists nothing, not even the agent's own sandbox, is not trusted", func(ctx context.Context) {
		start(ctx, "cri-o")
		f.have()
		refused(ctx, v1alpha1.ReasonListFailed)
	}, SpecTimeout(specTimeout))

	It("gives no response with two ready sandboxes of one UID", func(ctx context.Context) {
		start(ctx, "cri-o")
		f.have(own, listed(id, p, isReady), listed("an0ther", p, isReady))
		got := refused(ctx, v1alpha1.ReasonUIDConflict)
		By("one of them not ready any more")
		f.have(own, listed(id, p, isReady), listed("an0ther", p, notReady))
		Eventually(ctx, got).Should(HaveField("Reason", v1alpha1.ReasonSandboxReady))
	}, SpecTimeout(specTimeout))

	It("gives no response with one UID under two names", func(ctx context.Context) {
		start(ctx, "cri-o")
		alias := pod{uid: p.uid, namespace: p.namespace, name: "another"}
		f.have(own, listed(id, p, notReady), listed("an0ther", alias, notReady))
		refused(ctx, v1alpha1.ReasonUIDConflict)
	}, SpecTimeout(specTimeout))

	It("CRI-O: runs DEL, then stops, then removes; only absence is gone", func(ctx context.Context) {
		start(ctx, "cri-o")
		f.have(own, listed(id, p, notReady))
		got := w.query(ctx, record, id)
		held := response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxListed, p.uid}
		Eventually(ctx, got).Should(Equal(held))
		Consistently(ctx, got).Should(Equal(held))
		f.have(own)
		Eventually(ctx, got).Should(Equal(response{v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, p.uid}))
	}, SpecTimeout(specTimeout))

	It("CRI-O: a sandbox that is starting, and parked, is held and then seen", func(ctx context.Context) {
		start(ctx, "cri-o")
		f.have(own)
		w.stopAgent()
		w.config.Delays.SandboxCreationMax.Duration = 2 * stable
		w.startAgent(ctx)
		reported := w.query(ctx, record, id)
		Eventually(ctx, reported).Should(Equal(response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxNotSeen, ""}))
		f.have(own, listed(id, p, isReady))
		Eventually(ctx, reported).Should(Equal(response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, p.uid}))
		Consistently(ctx, reported, 3*stable).Should(HaveField("Verdict", v1alpha1.VerdictDoNotRelease))
	}, SpecTimeout(specTimeout))

	It("CRI-O: the sandbox of a pod that completed stays listed until the pod is deleted, and is held", func(ctx context.Context) {
		start(ctx, "cri-o")
		f.have(own, listed(id, p, notReady))
		reported := w.query(ctx, record, v1alpha1.AnySandbox)
		Eventually(ctx, reported).Should(Equal(response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxListed, p.uid}))
		// It is logged once it is written.
		Eventually(ctx, func() (string, error) {
			content, err := os.ReadFile(w.process.LogFile())
			return string(content), err
		}).Should(ContainSubstring("the kubelet removes the last sandbox of a pod once the pod is deleted, and not when it has completed"))
	}, SpecTimeout(specTimeout))

	It("that calls itself containerd and shows no tasks where its socket is proves nothing gone, and shows what is alive", func(ctx context.Context) {
		start(ctx, "containerd")
		got := w.query(ctx, record, id)
		alive := response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, p.uid}
		Eventually(ctx, got).Should(Equal(alive))
		f.have(own)
		Eventually(ctx, w.responding(ctx)).Should(Equal(notResponding(v1alpha1.ReasonListFailed)))
		Eventually(ctx, w.reasons(ctx)).Should(ContainElement(string(v1alpha1.ReasonListFailed)))
		Consistently(ctx, got).Should(Equal(alive), "the response stays until there is another one")
	}, SpecTimeout(specTimeout))

	It("that calls itself containerd and tells nothing of a network namespace is not trusted to have closed it", func(ctx context.Context) {
		start(ctx, "containerd")
		f.have(own, listed(id, p, notReady))
		got := w.query(ctx, record, id)
		unknown := response{v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonNetworkNamespaceUnknown, p.uid}
		Eventually(ctx, got).Should(Equal(unknown))
		Consistently(ctx, got).Should(Equal(unknown))
	}, SpecTimeout(specTimeout))
})
