// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	// Each of these registers a controller.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"

	// And each of these a kind of issuer.
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

// The values are cert-manager's defaults (internal/apis/config/controller/v1alpha1).
const (
	workers  = 5
	apiQPS   = 20
	apiBurst = 50
)

// copiedAnnotations describes which annotations of a Certificate its requests get.
var copiedAnnotations = []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"}

// addControllers runs every controller that is registered above.
func addControllers(mgr ctrl.Manager, o options) error {
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
			Kubeconfig:         o.kubeconfig,
			KubernetesAPIQPS:   apiQPS,
			KubernetesAPIBurst: apiBurst,
			IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: o.clusterNamespace},
			CertificateOptions: certificateOptions(),
		})
		if err != nil {
			return fmt.Errorf("connecting to the cluster: %w", err)
		}
		return runControllers(ctx, factory)
	}))
}

// runControllers returns when ctx is done, or with the first controller's error.
func runControllers(ctx context.Context, factory *controller.ContextFactory) error {
	shared, err := factory.Build()
	if err != nil {
		return fmt.Errorf("making the clients: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	known := controller.Known()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		// The informers that a controller needs are known once it is made.
		c, err := known[name](factory)
		if err != nil {
			return fmt.Errorf("making the controller %s: %w", name, err)
		}
		group.Go(func() error {
			if err := c.Run(workers, ctx); err != nil {
				return fmt.Errorf("controller %s: %w", name, err)
			}
			return nil
		})
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return group.Wait()
}
