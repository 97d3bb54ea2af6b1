// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// PresetFieldManager is the field manager of the presets. It never forces: a policy of which another writer changed a field that the
// preset sets stays as that writer wants it.
const PresetFieldManager = "holdfast-presets"

// +kubebuilder:rbac:groups=holdfast.dev,resources=noderesourcepolicies,resourceNames=nodeinfo;nodenetworkconfigs,verbs=create;patch

// applyPresets applies the presets that this process has not applied yet, and those that are missing.
func (k *webhookReconciler) applyPresets(ctx context.Context) error {
	if k.options.Disabled {
		return nil
	}
	var failures []error
	for _, preset := range k.options.Presets {
		name := preset.GetName()
		err := k.client.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.NodeResourcePolicy{})
		if err == nil && k.presetsApplied.Has(name) {
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			failures = append(failures, fmt.Errorf("reading NodeResourcePolicy %s: %w", name, err))
			continue
		}
		if err := k.applyPreset(ctx, preset); err != nil {
			failures = append(failures, err)
			continue
		}
		k.presetsApplied.Insert(name)
	}
	return errors.Join(failures...)
}

func (k *webhookReconciler) applyPreset(ctx context.Context, preset *unstructured.Unstructured) error {
	err := k.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(preset.DeepCopy()), client.FieldOwner(PresetFieldManager))
	switch {
	case apierrors.IsConflict(err):
		log.FromContext(ctx).Info("A preset policy was changed; it stays as it is", "policy", preset.GetName(), "conflict", err.Error())
	case err != nil:
		return fmt.Errorf("applying the preset NodeResourcePolicy %s: %w", preset.GetName(), err)
	default:
		log.FromContext(ctx).Info("Applied a preset policy", "policy", preset.GetName())
	}
	return nil
}
