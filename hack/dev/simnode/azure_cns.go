// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

const (
	// managerCommand is what an init container has as its command to run the
	// manager.
	managerCommand = "manager"
	// nodeNameReference is the variable that an init container's arguments may use.
	nodeNameReference = "$(NODE_NAME)"

	killDelay   = time.Second
	sandboxPoll = 200 * time.Millisecond
)

// errInitRuns keeps the kubelet from calling the pod's containers started.
var errInitRuns = errors.New("an init container of the CNS is not through")

// startCNS starts what the pod of azure-cns runs: its init containers, one after
// the other, then the CNS, until the pod's sandbox ends. It is called again until
// it returns nil, which is once the CNS runs.
func (m *machine) startCNS(ctx context.Context, pod *corev1.Pod) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if through, known := m.cnsPods[pod.UID]; known {
		select {
		case <-through:
			return nil
		default:
			return errInitRuns
		}
	}
	identity, err := controlplane.ServiceAccount(ctx, m.way(m.options.Config), pod.Namespace, pod.Spec.ServiceAccountName, pod)
	if err != nil {
		return err
	}
	reader, err := client.New(m.way(identity), client.Options{})
	if err != nil {
		return fmt.Errorf("client of the CNS of %s: %w", m.node.Name, err)
	}
	kubeconfig := filepath.Join(m.options.StateDir, m.node.Name, "azure-cns.kubeconfig")
	if err := writeKubeconfig(kubeconfig, identity, ""); err != nil {
		return err
	}
	through := make(chan struct{})
	m.cnsPods[pod.UID] = through
	ctx, cancel := context.WithCancel(ctx)
	go m.endWithSandbox(ctx, string(pod.UID), cancel)
	go func() {
		for _, container := range pod.Spec.InitContainers {
			if !m.runInit(ctx, container, kubeconfig) {
				return
			}
		}
		close(through)
		m.cns.Run(ctx, reader, func(news string) { m.emit(api.EventCNS, news) })
	}()
	return errInitRuns
}

// endWithSandbox cancels what runs in a pod's sandbox once that is dead.
func (m *machine) endWithSandbox(ctx context.Context, podUID string, cancel context.CancelFunc) {
	defer cancel()
	sandbox, found := m.runtime.Listed(podUID)
	// The error is that ctx ended, which is an end too.
	_ = wait.PollUntilContextCancel(ctx, sandboxPoll, true, func(context.Context) (bool, error) {
		return !found || !m.runtime.Alive(sandbox), nil
	})
}

// runInit runs an init container until it succeeds, as a kubelet does; false when
// ctx ended before.
func (m *machine) runInit(ctx context.Context, container corev1.Container, kubeconfig string) bool {
	for {
		err := m.runManager(ctx, container, kubeconfig)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		m.emit(api.EventInit, fmt.Sprintf("%s: %v", container.Name, err))
		if !sleep(ctx, m.options.Retry) {
			return false
		}
	}
}

// sleep is false when ctx ended before the time was over.
func sleep(ctx context.Context, d time.Duration) bool {
	return wait.PollUntilContextCancel(ctx, d, false, func(context.Context) (bool, error) { return true, nil }) == nil
}

// runManager runs the manager for a container, with a kubeconfig in the place of
// what a pod is given, and notes every line that it writes.
func (m *machine) runManager(ctx context.Context, container corev1.Container, kubeconfig string) error {
	if m.options.Manager == "" || len(container.Command) == 0 || filepath.Base(container.Command[0]) != managerCommand {
		return fmt.Errorf("the command %q is none that this machine has", container.Command)
	}
	var args []string
	for _, arg := range append(container.Command[1:], container.Args...) {
		args = append(args, strings.ReplaceAll(arg, nodeNameReference, m.node.Name))
	}
	command := exec.CommandContext(ctx, m.options.Manager, append(args, "--kubeconfig", kubeconfig)...)
	command.WaitDelay = killDelay
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		m.emit(api.EventInit, container.Name+": "+lines.Text())
	}
	return command.Wait()
}

func (m *machine) emit(event, message string) {
	m.options.Log.Info(message, "node", m.node.Name)
	m.history.Add(api.Event{Node: m.node.Name, Event: event, Message: message})
}
