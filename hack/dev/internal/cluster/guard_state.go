// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	holdfastv1alpha1 "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// Manager is the guard's process; nil while the guard is not installed.
func (c *Cluster) Manager() *process.Process {
	if c.guard == nil {
		return nil
	}
	return c.guard.manager
}

// StartManager starts the manager again, as it was, after the caller ended it.
// It returns when it is ready.
func (c *Cluster) StartManager(ctx context.Context) error {
	if c.guard == nil || c.guard.manager == nil || !c.guard.manager.Exited() {
		return errors.New("starting the manager again: it runs, or was never started")
	}
	return c.step(ctx, "manager", c.runManager)
}

// StartStandby starts a second replica of the manager as a process of this name, and returns when it is ready: it waits for the Lease. It serves at
// ports of its own, which no webhook configuration names.
func (c *Cluster) StartStandby(ctx context.Context, name string) (*process.Process, error) {
	if c.guard == nil {
		return nil, errors.New("starting a second replica: the guard is not installed")
	}
	content, err := os.ReadFile(c.guard.configFile)
	if err != nil {
		return nil, err
	}
	webhookPort, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	healthPort, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	configuration := map[string]any{}
	if err := yaml.Unmarshal(content, &configuration); err != nil {
		return nil, err
	}
	for field, value := range map[string]any{"webhookPort": int64(webhookPort), "metricsBindAddress": "0", "healthProbeBindAddress": fmt.Sprintf("127.0.0.1:%d", healthPort)} {
		if err := unstructured.SetNestedField(configuration, value, "server", field); err != nil {
			return nil, err
		}
	}
	if content, err = yaml.Marshal(configuration); err != nil {
		return nil, err
	}
	file := c.path("manager", name+".yaml")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		return nil, err
	}
	return c.startReplica(ctx, name, file, healthPort)
}

// WithdrawGuard stops the manager and deletes its webhooks and policies, as if Holdfast were not there; RestoreGuard takes that back.
func (c *Cluster) WithdrawGuard(ctx context.Context) error {
	if c.guard == nil || c.guard.manager == nil {
		return errors.New("withdrawing the guard: it is not installed")
	}
	if err := c.guard.manager.Stop(0); err != nil {
		return err
	}
	for _, o := range c.guard.admission {
		if err := client.IgnoreNotFound(c.client.Delete(ctx, o.DeepCopy())); err != nil {
			return err
		}
	}
	return nil
}

// RestoreGuard returns when the manager is ready and the API server protects.
func (c *Cluster) RestoreGuard(ctx context.Context) error {
	if err := c.StartManager(ctx); err != nil {
		return err
	}
	if err := c.apply(ctx, c.guard.admission...); err != nil {
		return err
	}
	return c.awaitProtected(ctx)
}

// awaitProtected waits until the API server calls the webhook: it learns of new
// webhooks by a watch. The network does not exist, which protects.
func (c *Cluster) awaitProtected(ctx context.Context) error {
	return await(ctx, func(ctx context.Context) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceDefault, GenerateName: "holdfast-dev-probe-",
				Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: "holdfast-dev-probe"},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "none"}}},
		}
		if err := c.client.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if !slices.Contains(pod.Finalizers, holdfastv1alpha1.Finalizer) {
			return errors.New("the API server does not protect pods yet")
		}
		return nil
	})
}
