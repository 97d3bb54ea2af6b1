// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	holdfastv1alpha1 "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// deleteStale has the sample policies delete stale objects.
const deleteStale = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%[1]s]
components: [%[1]s/delete-stale]
`

// GuardNodeResource applies the sample policy for a resource, with the component
// that deletes stale objects, and returns when the API server enforces it. The
// guard has to be installed.
func (c *Cluster) GuardNodeResource(ctx context.Context, plural string) error {
	objects, err := c.nodeResourceSample(ctx, plural)
	if err != nil {
		return fmt.Errorf("sample policy for %s: %w", plural, err)
	}
	if err := c.apply(ctx, objects...); err != nil {
		return err
	}
	return await(ctx, func(ctx context.Context) error {
		policy := &holdfastv1alpha1.NodeResourcePolicy{}
		if err := c.client.Get(ctx, client.ObjectKey{Name: plural}, policy); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(policy.Status.Conditions, holdfastv1alpha1.PolicyEnforced) {
			return fmt.Errorf("policy %s is not enforced yet: %+v", plural, policy.Status.Conditions)
		}
		return nil
	})
}

// nodeResourceSample is what config/samples/node-resources has for one resource.
func (c *Cluster) nodeResourceSample(ctx context.Context, plural string) ([]*unstructured.Unstructured, error) {
	dir := c.path("node-resources")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	samples, err := filepath.Rel(dir, c.sample())
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "kustomization.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, deleteStale, filepath.ToSlash(samples)), 0o644); err != nil {
		return nil, err
	}
	objects, err := c.kustomize(ctx, dir)
	if err != nil {
		return nil, err
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return !strings.HasSuffix(o.GetName(), plural)
	})
	if len(objects) == 0 {
		return nil, errors.New("there is none")
	}
	return objects, nil
}

// AddWait gives a DaemonSet the init container of the samples, with what its
// account needs for that.
func (c *Cluster) AddWait(ctx context.Context, set *appsv1.DaemonSet) error {
	if err := c.applyFiles(ctx, filepath.Join(c.sample(), "wait-role.yaml")); err != nil {
		return err
	}
	return addWait(set, filepath.Join(c.sample(), "wait-init-container.yaml"))
}

// addWait applies a patch of a file.
func addWait(set *appsv1.DaemonSet, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	patch, err := yaml.YAMLToJSON(content)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	before, err := json.Marshal(set)
	if err != nil {
		return err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, appsv1.DaemonSet{})
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return json.Unmarshal(after, set)
}

func (c *Cluster) sample() string {
	return filepath.Join(c.options.Root, "config", "samples", "node-resources")
}
