// SPDX-License-Identifier: Apache-2.0

// Command whereabouts-install prepares a node for whereabouts' CNI plugin, as
// the scripts in whereabouts' own image do (script/install-cni.sh and
// token-watcher.sh of v0.9.4): it copies the plugin to the node and writes its
// configuration, the node's name and a kubeconfig with the token of the pod that
// it runs in. The token is bound to that pod, and so names the node. It then
// stays, and writes the kubeconfig again whenever the kubelet renews the token.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// watchPeriod is that of whereabouts' own watcher. The kubelet renews a token
// when a fifth of its life is left, so a second late is early enough.
const watchPeriod = time.Second

const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "whereabouts-install:", err)
		os.Exit(1)
	}
}

// settings are what the flags and the environment say.
type settings struct {
	installation
	plugin string
	binDir string
	once   bool
}

func parse(args []string) (settings, error) {
	s := settings{installation: installation{
		namespace: os.Getenv("WHEREABOUTS_NAMESPACE"),
		nodeName:  os.Getenv("NODENAME"),
		schedule:  os.Getenv("WHEREABOUTS_RECONCILER_CRON"),
	}}
	flags := flag.NewFlagSet("whereabouts-install", flag.ContinueOnError)
	flags.StringVar(&s.plugin, "plugin", "/whereabouts", "the plugin's binary in this image")
	flags.StringVar(&s.binDir, "bin-dir", "/host/opt/cni/bin", "the node's folder of CNI plugins, as mounted here")
	flags.StringVar(&s.confDir, "conf-dir", "/host/etc/cni/net.d", "the node's folder of CNI configurations, as mounted here")
	flags.StringVar(&s.nodeConfDir, "node-conf-dir", "/etc/cni/net.d", "the same folder, as the node knows it")
	flags.StringVar(&s.server, "server", inClusterServer(), "URL of the API server, as the node reaches it")
	flags.StringVar(&s.tokenFile, "token-file", filepath.Join(serviceAccount, "token"), "the token for the plugin")
	flags.StringVar(&s.caFile, "ca-file", filepath.Join(serviceAccount, "ca.crt"), "the authority of the API server's certificate")
	flags.StringVar(&s.logFile, "log-file", "", "where the plugin logs on the node; empty for nowhere")
	flags.StringVar(&s.logLevel, "log-level", "", "how much the plugin logs: debug, verbose, error, panic")
	flags.BoolVar(&s.once, "once", false, "end when the files are written, instead of renewing the token")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "whereabouts-install puts whereabouts' plugin, its configuration and a token on a node.")
		fmt.Fprintln(flags.Output(), "NODENAME and WHEREABOUTS_NAMESPACE must be set; WHEREABOUTS_RECONCILER_CRON is the schedule that 0.6 reads in the configuration. Flags:")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	if flags.NArg() > 0 {
		return settings{}, fmt.Errorf("unexpected argument %q: expected flags only", flags.Arg(0))
	}
	return s, s.validate()
}

// inClusterServer is the URL from the environment that every pod gets, or "" outside of a pod.
func inClusterServer() string {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, port)
}

func run(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	if err := copyPlugin(s.plugin, filepath.Join(s.binDir, "whereabouts")); err != nil {
		return fmt.Errorf("installing the plugin: %w", err)
	}
	if err := s.writeStatic(); err != nil {
		return err
	}
	current, err := s.readCredentials()
	if err != nil {
		return err
	}
	if err := s.writeKubeconfig(current); err != nil {
		return err
	}
	slog.Info("the node is prepared", "node", s.nodeName, "server", s.server)
	if s.once {
		return nil
	}
	ticker := time.NewTicker(watchPeriod)
	defer ticker.Stop()
	s.follow(ctx, ticker.C, current)
	return nil
}

// follow looks at the credentials at every tick, until ctx is done, and writes the
// kubeconfig again when they changed. What it cannot read or write it tries
// again at the next tick: the old token is good for a while.
func (s settings) follow(ctx context.Context, ticks <-chan time.Time, current credentials) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		next, err := s.readCredentials()
		if err != nil {
			slog.Error("the credentials cannot be read; trying again", "error", err)
			continue
		}
		if next == current {
			continue
		}
		if err := s.writeKubeconfig(next); err != nil {
			slog.Error("the kubeconfig cannot be written; trying again", "error", err)
			continue
		}
		slog.Info("the credentials changed; the kubeconfig is written again")
		current = next
	}
}
