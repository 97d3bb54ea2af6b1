// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode"
	"github.com/holdfast-dev/holdfast/internal/testing/manifests"
)

const (
	// readyTimeout bounds the wait for nodes and pods: test machines are small and
	// busy.
	readyTimeout = 2 * time.Minute

	pollInterval = 100 * time.Millisecond
)

// multusManifest holds the rights that Multus' own manifests give it.
//
//go:embed multus.yaml
var multusManifest []byte

// installWhereabouts applies whereabouts' own manifests: account, rights,
// DaemonSet and the reconciler's Deployment.
func (c *Cluster) installWhereabouts(ctx context.Context) error {
	multus, err := manifests.Parse(multusManifest)
	if err != nil {
		return err
	}
	if err := c.apply(ctx, multus...); err != nil {
		return err
	}
	crds := filepath.Join(c.modules[whereaboutsModule], "doc", "crds")
	_, version, _ := strings.Cut(filepath.Base(c.modules[whereaboutsModule]), "@")
	change := func(o *unstructured.Unstructured) error {
		return errors.Join(awayFrom(o, c.options.CNSNodes), tagImages(o, version))
	}
	return c.applyChanged(ctx, change, filepath.Join(crds, "daemonset-install.yaml"), filepath.Join(crds, "reconciler-deployment.yaml"))
}

// tagImages gives the images of a workload the tag of the version that runs: by it Holdfast determines whether the reconciler shares the DaemonSet's
// pods, and the manifests' own is latest.
func tagImages(o *unstructured.Unstructured, version string) error {
	path := []string{"spec", "template", "spec", "containers"}
	containers, found, err := unstructured.NestedSlice(o.Object, path...)
	if err != nil || !found {
		return err
	}
	for _, c := range containers {
		if container, ok := c.(map[string]any); ok {
			image, _ := container["image"].(string)
			container["image"] = strings.Replace(image, ":latest", ":"+version, 1)
		}
	}
	return unstructured.SetNestedSlice(o.Object, containers, path...)
}

// awayFrom keeps a Deployment's pods from these nodes. A node that waits for its CNS can be taken for a usable one in the
// moment of its registration, and a pod that is bound to it then waits for as long.
func awayFrom(o *unstructured.Unstructured, nodes []string) error {
	if o.GetKind() != "Deployment" || len(nodes) == 0 {
		return nil
	}
	affinity, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: nodes},
			},
		}}},
	})
	if err != nil {
		return err
	}
	return unstructured.SetNestedMap(o.Object, affinity, "spec", "template", "spec", "affinity", "nodeAffinity")
}

// awaitWhereabouts waits until a pod of the DaemonSet runs on every node, and
// the reconciler's pod anywhere.
func (c *Cluster) awaitWhereabouts(ctx context.Context) error {
	return await(ctx, func(ctx context.Context) error {
		pods, err := c.clientset.CoreV1().Pods(simnode.WhereaboutsNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		running := map[string]bool{}
		for _, pod := range pods.Items {
			if pod.Status.Phase == corev1.PodRunning {
				running[pod.Labels["name"]+" on "+pod.Spec.NodeName] = true
				running[pod.Labels["name"]] = true
			}
		}
		for _, node := range c.options.Nodes {
			if !running["whereabouts on "+node] {
				return fmt.Errorf("no running pod of DaemonSet whereabouts on node %s", node)
			}
		}
		if !running["whereabouts-reconciler"] {
			return fmt.Errorf("no running pod of Deployment whereabouts-reconciler")
		}
		return nil
	})
}

// await repeats the check until it passes. The error otherwise carries its last
// error.
func await(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil { // else the check was cut short and its error means nothing
			last = err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w, last response: %w", context.Cause(ctx), last)
		}
	}
}
