// SPDX-License-Identifier: Apache-2.0

// Package program is what the command lines of the manager and of the agent have in common.
package program

import (
	"flag"
	"fmt"
	"net"
	"net/netip"
	"runtime"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

// Describe is a program's name with its version and that of its build.
func Describe(name, version string) string {
	return fmt.Sprintf("%s %s (%s, %s/%s)", name, version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// VersionCommand prints a program's description; called is the program in the example.
func VersionCommand(called, description string) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  " + called + " version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), description)
			return err
		},
	}
}

// ConfigCommand prints the configuration of a program that load reads from a file of this kind.
func ConfigCommand[C any](called, kind string, load func(path string) (C, error)) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration, or every mistake in the file",
		Example: fmt.Sprintf(`  # Every setting with its default
  %[1]s config

  # Check a file before it is rolled out
  %[1]s config --config config/%[1]s/config.yaml`, called),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(path)
			if err != nil {
				return err
			}
			content, err := yaml.Marshal(c)
			if err != nil {
				return fmt.Errorf("writing the effective configuration: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(content)
			return err
		},
	}
	addConfigFlag(cmd.Flags(), &path, kind)
	return cmd
}

// Flags are those of a program that runs.
type Flags struct {
	Config, Kubeconfig string
	log                zap.Options
}

// Add adds the flags. The configuration is of this kind.
func (f *Flags) Add(flags *pflag.FlagSet, kind string) {
	addConfigFlag(flags, &f.Config, kind)
	AddKubeconfigFlag(flags, &f.Kubeconfig)
	f.log.TimeEncoder = zapcore.RFC3339NanoTimeEncoder
	set := flag.NewFlagSet("log", flag.ContinueOnError)
	f.log.BindFlags(set)
	flags.AddGoFlagSet(set)
}

func addConfigFlag(flags *pflag.FlagSet, path *string, kind string) {
	flags.StringVar(path, "config", "", "`file` with a "+kind+" (config.holdfast.dev/v1alpha1); every default without one")
}

// AddKubeconfigFlag adds the flag for RESTConfig.
func AddKubeconfigFlag(flags *pflag.FlagSet, path *string) {
	flags.StringVar(path, "kubeconfig", "", "`file` with the way to the cluster; otherwise $KUBECONFIG, the pod's own account, or ~/.kube/config")
}

// Logger is the logger as the flags want it. It is that of the libraries, too.
func (f *Flags) Logger() logr.Logger {
	logger := zap.New(zap.UseFlagOptions(&f.log))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger.WithName("client-go"))
	return logger
}

// RESTConfig is the client configuration for the cluster.
func RESTConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		restConfig, err := ctrl.GetConfig()
		if err != nil {
			return nil, fmt.Errorf("finding a way to the cluster: %w; give one with --kubeconfig", err)
		}
		return restConfig, nil
	}
	restConfig, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", kubeconfig, err)
	}
	return restConfig, nil
}

// Metrics are served over HTTP on a loopback address, and elsewhere over HTTPS to accounts that RBAC allows to get /metrics, with the folder's
// certificate or one that the server creates.
func Metrics(address, certDir string) metricsserver.Options {
	o := metricsserver.Options{BindAddress: address}
	if address == configv1alpha1.ServeNothing || isLoopback(address) {
		return o
	}
	o.SecureServing = true
	o.CertDir = certDir
	o.FilterProvider = filters.WithAuthenticationAndAuthorization
	return o
}

func isLoopback(bindAddress string) bool {
	host, _, err := net.SplitHostPort(bindAddress)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && address.IsLoopback())
}
