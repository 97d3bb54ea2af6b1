// SPDX-License-Identifier: Apache-2.0

package shapes_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/config"
	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// plugin is whereabouts' CNI plugin in one version.
type plugin interface {
	run(t *testing.T, command string, c call) error
}

// call is one invocation of a plugin.
type call struct {
	config         []byte
	sandbox, iface string
	pod            *corev1.Pod
}

func (c call) arguments() string {
	return fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s;K8S_POD_INFRA_CONTAINER_ID=%s", c.pod.Namespace, c.pod.Name, c.sandbox)
}

// allocator is v0.9.4: the steps of its cmd/whereabouts.go, without the Lease, which only keeps calls of whereabouts apart.
type allocator struct{}

func (allocator) run(t *testing.T, command string, c call) error {
	conf, _, err := config.LoadIPAMConfig(c.config, c.arguments())
	if err != nil {
		return err
	}
	ipam, err := wbkubernetes.NewKubernetesIPAM(c.sandbox, c.iface, *conf)
	if err != nil {
		return err
	}
	mode, limit := types.Allocate, types.AddTimeLimit
	if command == "DEL" {
		mode, limit = types.Deallocate, types.DelTimeLimit
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, err = wbkubernetes.IPManagementKubernetesUpdate(ctx, mode, ipam, *conf)
	return err
}

const (
	whereaboutsModule = "github.com/k8snetworkplumbingwg/whereabouts"
	// olderVersions is the module with a file for each version but the one that this module requires.
	olderVersions = "../../../whereabouts"
)

// program is the path of a plugin's executable.
type program string

// programOf builds the program of a version that has a module file in hack/whereabouts: the go command keeps it.
func programOf(t *testing.T, modfile string) plugin {
	t.Helper()
	return program(goIn(t, olderVersions, "tool", "-modfile="+modfile, "-n", whereaboutsModule+"/cmd"))
}

// goIn is the output of a go command in a module.
func goIn(t *testing.T, module string, arguments ...string) string {
	t.Helper()
	output, err := process.Output(t.Context(), module, "go", arguments...)
	if err != nil {
		t.Fatalf("in %s: %v", module, err)
	}
	return output
}

// run runs the program as a container runtime does. What went wrong is in its output.
func (p program) run(t *testing.T, command string, c call) error {
	run := exec.CommandContext(t.Context(), string(p))
	run.Env = append(os.Environ(), "CNI_COMMAND="+command, "CNI_CONTAINERID="+c.sandbox, "CNI_IFNAME="+c.iface, "CNI_PATH="+filepath.Dir(string(p)),
		"CNI_NETNS=/var/run/netns/"+c.sandbox, "CNI_NETNS_OVERRIDE=true", "CNI_ARGS="+c.arguments())
	run.Stdin = bytes.NewReader(c.config)
	if output, err := run.Output(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(output))
	}
	return nil
}
