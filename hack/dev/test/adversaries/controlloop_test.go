// SPDX-License-Identifier: Apache-2.0

package adversaries_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-dev/holdfast/hack/dev/controlloop"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/token"
	"github.com/holdfast-dev/holdfast/hack/dev/standin"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/faults"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// What a child of the suite that is a control loop reads from its environment.
const (
	controlLoopMode       = "HOLDFAST_TEST_CONTROL_LOOP"
	controlLoopKubeconfig = "HOLDFAST_TEST_KUBECONFIG"
	controlLoopStarted    = "HOLDFAST_TEST_STARTED"
)

// What the child is asked, by POST, at the address that it writes into the file controlLoopStarted.
const (
	deafen = "/deafen" // hear nothing of pods from now on
	listen = "/listen" // hear of everything that was missed
)

// runControlLoop is the whole of such a child.
func runControlLoop() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := serveControlLoop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveControlLoop runs the control loop with a watch of pods that can be made to lag. It is the only one: a control loop looks
// for the pod's addresses in its own cache of pools, and where that lags as well, it finds those of long ago and has nothing to do.
func serveControlLoop(ctx context.Context) error {
	identity, err := clientcmd.BuildConfigFromFlags("", os.Getenv(controlLoopKubeconfig))
	if err != nil {
		return err
	}
	pods := &faults.Frozen{Applies: func(c faults.Call) bool { return c.Resource.Group == "" && c.Resource.Resource == "pods" }}
	direct, err := kubernetes.NewForConfig(identity)
	if err != nil {
		return err
	}
	lagging := rest.CopyConfig(identity)
	lagging.Wrap(pods.Wrap)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+deafen, func(w http.ResponseWriter, r *http.Request) {
		now, err := direct.CoreV1().Pods(metav1.NamespaceAll).List(r.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		pods.Freeze(now.ResourceVersion)
	})
	mux.HandleFunc("POST "+listen, func(http.ResponseWriter, *http.Request) { pods.Thaw() })
	go func() { _ = http.Serve(listener, mux) }() // until the process ends

	return controlloop.Run(ctx, lagging, func() error {
		return os.WriteFile(os.Getenv(controlLoopStarted), []byte(listener.Addr().String()), 0o600)
	})
}

// controlLoop is whereabouts' pod control loop of one node.
type controlLoop struct {
	*process.Process
	address string
}

// controlLoops are whereabouts' pod control loops, by node.
type controlLoops map[string]controlLoop

// start starts one on each node, under the token of whereabouts' DaemonSet pod there, and returns when their caches are
// full.
func (l controlLoops) start(ctx context.Context) {
	GinkgoHelper()
	for _, node := range nodes {
		l[node] = startControlLoop(ctx, node)
	}
}

func startControlLoop(ctx context.Context, node string) controlLoop {
	GinkgoHelper()
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	identity, err := token.ForPod(ctx, theCluster.Config(), daemonSetPod(ctx, node))
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := controlplane.Kubeconfig(identity)
	Expect(err).NotTo(HaveOccurred())
	in := GinkgoT().TempDir()
	path, started := filepath.Join(in, "kubeconfig"), filepath.Join(in, "started")
	Expect(os.WriteFile(path, kubeconfig, 0o600)).To(Succeed())
	loop, err := process.Start(process.Options{
		Name: "control loop of " + node, Path: self, Args: []string{"-test.run=^TestAdversaries$"},
		LogFile: filepath.Join(directory, "logs", "control-loop-"+node+".log"),
		Env: []string{controlLoopMode + "=1", controlLoopKubeconfig + "=" + path, controlLoopStarted + "=" + started,
			controlloop.NodeEnv + "=" + node, controlloop.NamespaceEnv + "=" + standin.DefaultWhereaboutsNamespace},
	})
	Expect(err).NotTo(HaveOccurred())
	var address []byte
	Expect(loop.WaitReady(ctx, func(context.Context) error {
		if address, err = os.ReadFile(started); err == nil && len(address) == 0 {
			err = fmt.Errorf("%s is empty", started)
		}
		return err
	})).To(Succeed())
	return controlLoop{Process: loop, address: string(address)}
}

// restart is for a story that needs them alive: one that has lost whereabouts' Lease at the wrong moment waits for ever.
func (l controlLoops) restart(ctx context.Context) {
	GinkgoHelper()
	l.each(controlLoop.Kill)
	l.start(ctx)
}

func (l controlLoops) all() (all []*process.Process) {
	for _, loop := range l {
		all = append(all, loop.Process)
	}
	return all
}

// each does the same with all of them.
func (l controlLoops) each(do func(controlLoop) error) {
	GinkgoHelper()
	for _, loop := range l {
		Expect(do(loop)).To(Succeed())
	}
}

// tell asks all of them for what the path says.
func (l controlLoops) tell(ctx context.Context, path string) {
	GinkgoHelper()
	l.each(func(loop controlLoop) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+loop.address+path, strings.NewReader(""))
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s %s: %s", loop.Name(), path, response.Status)
		}
		return nil
	})
}
