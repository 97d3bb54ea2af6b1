// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/testing/manifests"
)

const fieldOwner = client.FieldOwner("holdfast-dev")

func (c *Cluster) applyFiles(ctx context.Context, files ...string) error {
	return c.applyChanged(ctx, func(*unstructured.Unstructured) error { return nil }, files...)
}

// applyChanged applies manifests, each object as change leaves it.
func (c *Cluster) applyChanged(ctx context.Context, change func(*unstructured.Unstructured) error, files ...string) error {
	for _, file := range files {
		manifest, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		objects, err := manifests.Parse(manifest)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, object := range objects {
			if err := change(object); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		if err := c.apply(ctx, objects...); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// apply applies on the server's side, in the order given. The objects stay as they are, so that they can be applied again.
func (c *Cluster) apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		err := c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), fieldOwner, client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}
