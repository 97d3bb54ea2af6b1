// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	criapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	criclient "k8s.io/cri-client/pkg"
	"k8s.io/klog/v2"

	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	pauseImage = "holdfast.dev/pause:test"
	// podSubnet is for the sandboxes' point-to-point links, which end with them.
	podSubnet = "10.253.117.0/24"
	criTime   = 30 * time.Second
)

// containerd is a real one with everything of its own.
type containerd struct {
	dir, socket string
	process     *process.Process
	cri         criapi.RuntimeService
	config      string
}

func newContainerd(dir string) *containerd {
	return &containerd{dir: dir, socket: filepath.Join(dir, "run", "containerd.sock"), config: filepath.Join(dir, "config.toml")}
}

// start starts it, with what an earlier start left, and waits until the CRI is served.
func (c *containerd) start(ctx context.Context) {
	GinkgoHelper()
	Expect(c.launch(ctx)).To(Succeed())
}

// launch is start where it may fail.
func (c *containerd) launch(ctx context.Context) error {
	GinkgoHelper()
	c.configure()
	var err error
	c.process, err = process.Start(process.Options{Name: "containerd", Path: "containerd", Args: []string{"--config", c.config},
		LogFile: filepath.Join(c.dir, "containerd.log")})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return c.process.WaitReady(ctx, func(ctx context.Context) error {
		if err := c.connect(ctx); err != nil {
			return err
		}
		status, err := c.cri.Status(ctx, false)
		if err != nil {
			return err
		}
		for _, condition := range status.Status.Conditions {
			// containerd 2 has conditions of its own, such as one about what it deprecates.
			if !condition.Status && slices.Contains([]string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady}, condition.Type) {
				return fmt.Errorf("%s: %s", condition.Type, condition.Message)
			}
		}
		return nil
	})
}

func (c *containerd) connect(ctx context.Context) error {
	if c.cri != nil {
		return nil
	}
	service, err := criclient.NewRemoteRuntimeServiceBuilder().WithEndpoint("unix://" + c.socket).WithConnectionTimeout(criTime).
		Build(klog.NewContext(ctx, logr.Discard()))
	c.cri = service
	return err
}

// stop ends it as an upgrade does: the sandboxes live on.
func (c *containerd) stop() {
	GinkgoHelper()
	Expect(c.process.Stop(0)).To(Succeed())
}

func (c *containerd) root() string { return filepath.Join(c.dir, "root") }

// configure writes its configuration: no plugin of the machine's own containerd, no network of its own. As installed, its state is
// in the folder of its socket.
func (c *containerd) configure() {
	GinkgoHelper()
	plugins := filepath.Join(c.dir, "cni")
	Expect(os.MkdirAll(plugins, 0o755)).To(Succeed())
	write(c.config, fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.internal.v1.opt"]

[grpc]
  address = %q

[ttrpc]
  address = %q

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = %q
`, c.root(), filepath.Dir(c.socket), c.socket, c.socket+".ttrpc", pauseImage, plugins))
	network, err := json.Marshal(map[string]any{"cniVersion": "0.4.0", "name": "holdfast-node", "plugins": []any{map[string]any{
		"type": "ptp",
		"ipam": map[string]any{"type": "host-local", "dataDir": filepath.Join(c.dir, "addresses"), "ranges": []any{[]any{map[string]any{"subnet": podSubnet}}}},
	}}})
	Expect(err).NotTo(HaveOccurred())
	write(filepath.Join(plugins, "10-ptp.conflist"), string(network))
}

func write(path, content string) {
	GinkgoHelper()
	Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
}

// pod is what the kubelet sends the runtime about a pod.
type pod struct {
	uid             types.UID
	namespace, name string
}

func newPod() pod {
	uid := uuid.NewUUID()
	return pod{uid: uid, namespace: "default", name: "web-" + string(uid)[:8]}
}

func (c *containerd) sandboxConfig(p pod, attempt uint32) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: p.name, Namespace: p.namespace, Uid: string(p.uid), Attempt: attempt},
		Linux:    &runtimeapi.LinuxPodSandboxConfig{CgroupParent: "/" + c.cgroup(), SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: ownProcesses}},
	}
}

// cgroup is the parent of every sandbox's cgroups.
func (c *containerd) cgroup() string { return filepath.Base(filepath.Dir(c.dir)) }

// ownProcesses is a pod's default: its containers do not end with the sandbox's process.
var ownProcesses = &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}

// runSandbox makes a sandbox as the kubelet does.
func (c *containerd) runSandbox(ctx context.Context, p pod) string {
	GinkgoHelper()
	return c.runAttempt(ctx, p, 0)
}

// runAttempt makes another sandbox of the same pod.
func (c *containerd) runAttempt(ctx context.Context, p pod, attempt uint32) string {
	GinkgoHelper()
	id, err := c.cri.RunPodSandbox(ctx, c.sandboxConfig(p, attempt), "")
	Expect(err).NotTo(HaveOccurred())
	return id
}

// runContainer runs a process in a sandbox, and gives the container's ID.
func (c *containerd) runContainer(ctx context.Context, sandbox string, p pod) string {
	GinkgoHelper()
	id, err := c.cri.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "work"},
		Image: &runtimeapi.ImageSpec{Image: pauseImage}, Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: ownProcesses}}}, c.sandboxConfig(p, 0))
	Expect(err).NotTo(HaveOccurred())
	Expect(c.cri.StartContainer(ctx, id)).To(Succeed())
	return id
}

// killProcess kills the process that keeps the sandbox, and waits until containerd has seen it.
func (c *containerd) killProcess(ctx context.Context, id string) {
	GinkgoHelper()
	Expect(syscall.Kill(c.info(ctx, id).PID, syscall.SIGKILL)).To(Succeed())
	Eventually(ctx, func() (runtimeapi.PodSandboxState, error) {
		status, err := c.cri.PodSandboxStatus(ctx, id, false)
		return status.GetStatus().GetState(), err
	}).Should(Equal(runtimeapi.PodSandboxState_SANDBOX_NOTREADY))
}

// cutPower leaves of a sandbox what a power cut does: containerd's own records. containerd starts again without its processes
// and without the mount of its network namespace.
func (c *containerd) cutPower(ctx context.Context, id string) {
	GinkgoHelper()
	info := c.info(ctx, id)
	c.stop()
	Expect(syscall.Kill(info.PID, syscall.SIGKILL)).To(Succeed())
	for _, namespace := range info.RuntimeSpec.Linux.Namespaces {
		if namespace.Type == "network" {
			Expect(syscall.Unmount(namespace.Path, syscall.MNT_DETACH)).To(Succeed())
			Expect(os.Remove(namespace.Path)).To(Succeed())
		}
	}
	c.start(ctx)
}

// sandboxInfo is what of containerd's verbose status the suite reads.
type sandboxInfo struct {
	PID         int `json:"pid"`
	RuntimeSpec struct {
		Linux struct {
			Namespaces []struct{ Type, Path string } `json:"namespaces"`
		} `json:"linux"`
	} `json:"runtimeSpec"`
}

func (c *containerd) info(ctx context.Context, id string) sandboxInfo {
	GinkgoHelper()
	status, err := c.cri.PodSandboxStatus(ctx, id, true)
	Expect(err).NotTo(HaveOccurred())
	var info sandboxInfo
	Expect(json.Unmarshal([]byte(status.Info["info"]), &info)).To(Succeed())
	Expect(info.PID).To(BeNumerically(">", 1))
	return info
}

// unload makes containerd unable to load a sandbox, which lives on: there is a version in the sandbox's metadata that no containerd knows.
// containerd 1 starts again without that sandbox; containerd 2 does not start, which is refused. The returned function undoes that.
func (c *containerd) unload(ctx context.Context, id string) (load func(context.Context), refused error) {
	GinkgoHelper()
	known, unknown := []byte(`{"Version":"v1","Metadata":{"ID":"`+id+`"`), []byte(`{"Version":"v9","Metadata":{"ID":"`+id+`"`)
	rewrite := func(ctx context.Context, from, to []byte) error {
		GinkgoHelper()
		if !c.process.Exited() {
			c.stop()
		}
		path := filepath.Join(c.root(), "io.containerd.metadata.v1.bolt", "meta.db")
		content, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(bytes.Count(content, from)).To(BeNumerically(">", 0), "the sandbox's metadata is not where it was expected")
		Expect(os.WriteFile(path, bytes.ReplaceAll(content, from, to), 0o600)).To(Succeed())
		return c.launch(ctx)
	}
	refused = rewrite(ctx, known, unknown)
	return func(ctx context.Context) { GinkgoHelper(); Expect(rewrite(ctx, unknown, known)).To(Succeed()) }, refused
}

func (c *containerd) remove(ctx context.Context, id string) {
	GinkgoHelper()
	Expect(c.cri.StopPodSandbox(ctx, id)).To(Succeed())
	Expect(c.cri.RemovePodSandbox(ctx, id)).To(Succeed())
}

// tearDown leaves nothing: sandboxes first, with their shims, network namespaces and links, then the runtime, then its mounts.
func (c *containerd) tearDown(ctx context.Context) {
	GinkgoHelper()
	if c.process.Exited() {
		c.start(ctx)
	}
	sandboxes, err := c.cri.ListPodSandbox(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	for _, s := range sandboxes {
		c.remove(ctx, s.Id)
	}
	c.stop()
	mounts, err := os.ReadFile("/proc/self/mounts")
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, c.dir+"/") {
			Expect(syscall.Unmount(at, syscall.MNT_DETACH)).To(Succeed(), at)
		}
	}
	for _, shim := range shims(c.socket) {
		// containerd up to 2.2 forgets a shim that it could not shut down; 2.4 tries again. Without a task it holds nothing.
		Expect(children(shim)).To(BeEmpty(), "processes of shim %d, which containerd left", shim)
		By(fmt.Sprintf("end shim %d, which containerd left without a task", shim))
		Expect(syscall.Kill(shim, syscall.SIGKILL)).To(Or(Succeed(), MatchError(syscall.ESRCH)))
	}
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} { // the unified hierarchy, or one for each controller
		groups, err := filepath.Glob(pattern + c.cgroup())
		Expect(err).NotTo(HaveOccurred())
		for _, group := range groups {
			// One hierarchy may be there under two names.
			Expect(os.Remove(group)).To(Or(Succeed(), MatchError(os.ErrNotExist)))
		}
	}
}

// shims are the processes that containerd left for its sandboxes.
func shims(socket string) (left []int) {
	GinkgoHelper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	Expect(err).NotTo(HaveOccurred())
	for _, path := range found {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		Expect(err).NotTo(HaveOccurred())
		if command, err := os.ReadFile(path); err == nil && strings.Contains(string(command), socket) && pid != os.Getpid() {
			left = append(left, pid)
		}
	}
	return left
}

// children are the processes that a process has: a shim's are those of its sandbox, which it inherits where their parents end.
// A process that ends meanwhile has none.
func children(pid int) (all []string) {
	GinkgoHelper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	Expect(err).NotTo(HaveOccurred())
	Expect("/proc/thread-self/children").To(BeAnExistingFile(), "the kernel has to show children")
	for _, path := range threads {
		found, err := os.ReadFile(path)
		Expect(err).To(Or(Not(HaveOccurred()), MatchError(os.ErrNotExist), MatchError(syscall.ESRCH)))
		all = append(all, strings.Fields(string(found))...)
	}
	return all
}

// cleanUp removes a sandbox after the spec, if the spec did not.
func (c *containerd) cleanUp(id string) {
	DeferCleanup(func(ctx context.Context) {
		if c.process.Exited() {
			c.start(ctx)
		}
		left, err := c.cri.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{Id: id})
		Expect(err).NotTo(HaveOccurred())
		for _, s := range left {
			c.remove(ctx, s.Id)
		}
	}, NodeTimeout(soon))
}
