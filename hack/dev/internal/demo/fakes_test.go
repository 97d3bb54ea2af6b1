// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"

	simnode "github.com/holdfast-dev/holdfast/hack/dev/simnode/client"
)

// deadCluster is one that was never started.
type deadCluster struct{}

func (*deadCluster) Config() *rest.Config               { return &rest.Config{} }
func (*deadCluster) Kubeconfig() string                 { return "" }
func (*deadCluster) Plugin() string                     { return "" }
func (*deadCluster) SimNode() *simnode.Client           { return nil }
func (*deadCluster) InstallGuard(context.Context) error { return nil }
func (*deadCluster) Reconcile(context.Context) error    { return nil }
func (*deadCluster) Stop() error                        { return nil }

func (*deadCluster) GuardNodeResource(context.Context, string) error  { return nil }
func (*deadCluster) AddWait(context.Context, *appsv1.DaemonSet) error { return nil }
