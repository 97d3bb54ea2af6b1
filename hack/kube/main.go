// SPDX-License-Identifier: Apache-2.0

// Command kube is etcd, the Kubernetes control plane, the node components and
// kubectl in one binary. It runs the component whose name it is called by, so
// it is installed once with a link per component. Called k3s, it runs the
// component that its first argument names. Tests, the demo and the
// development cluster run on it instead of downloaded binaries.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJob time zones on machines without a zone database

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// parentVariable, when set, holds the process ID of the parent together with
// which the component is to end, however that parent ends. Test frameworks that
// start components leave them running when the test is killed.
const parentVariable = "KUBE_PARENT_PID"

// components maps a name in argv[0] to the entry point of that component,
// which returns the exit code.
var components = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          runCobra(apiserver.NewAPIServerCommand),
	"kube-controller-manager": runCobra(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          runCobra(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              runCobra(proxy.NewProxyCommand),
	"kubelet":                 runCobra(newKubelet),
	"kubectl":                 runKubectl,
}

// shared is the name of a binary that is all components. client-go makes the user agent of argv[0], and the API server makes the field manager of the
// user agent: under this name kubelet and controller manager have the same, as in k3s.
const shared = "k3s"

func main() {
	name := filepath.Base(os.Args[0])
	if name == shared && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = slices.Delete(os.Args, 1, 2)
	}
	run, ok := components[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no component is named %q: call this binary through a link named %s\n",
			name, strings.Join(slices.Sorted(maps.Keys(components)), ", "))
		os.Exit(2)
	}
	if err := dieWithParent(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(run())
}

func runCobra(newCommand func() *cobra.Command) func() int {
	return func() int { return cli.Run(newCommand()) }
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

func runKubectl() int {
	setKubectlLogLevel()
	kubectlutil.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
	return 0
}
