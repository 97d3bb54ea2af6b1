// SPDX-License-Identifier: Apache-2.0

// Command certmanager is cert-manager for clusters of our own: its real
// controllers for what config/certmanager uses, and its real CA injector, both
// from its module. cert-manager's own commands are modules that cannot be
// required from outside of its repository.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "certmanager",
		Short: "Run cert-manager's controllers or its CA injector",
		Long: `certmanager runs cert-manager's own code: "controller" issues certificates from
self-signed and CA issuers, "cainjector" writes authorities into webhooks, CRDs and
APIServices. It uses the service account of its pod unless --kubeconfig is given.
There is no ACME, no Vault, no Venafi, and no webhook.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(
		component("controller", "Run the issuer, certificate and certificate request controllers", addControllers),
		component("cainjector", "Run the CA injector", addInjectors),
	)
	return root
}
