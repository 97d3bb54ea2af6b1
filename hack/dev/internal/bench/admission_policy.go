// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

// admissionPolicy creates pods that the API server itself protects, by the component of the installation.
var admissionPolicy = experiment{
	repeats: 10,
	slices:  4,
	rows: []row{{
		Row: page.Row{Name: "admission-policy", Title: "creation, saturated, with the admission policy variant", Against: "null webhook", Unit: ratio,
			Target: result.Target{Op: result.AtLeast, Value: 1}, Limit: "The API server evaluates the policy on the processors that it creates pods with."},
		figure: throughput(ours, null),
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		arms, err := w.creators(ctx, w.size(250, 50), metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		return arms, w.protectByPolicy(ctx)
	},
}

// protectByPolicy applies the component in the namespace of the first arm, and waits until the webhook is not called there any more.
func (w *world) protectByPolicy(ctx context.Context) error {
	found, err := filepath.Glob(filepath.Join(w.options.Root, "config", "components", "admission-policy-*", "policy.yaml"))
	if err != nil || len(found) != 1 {
		return impossible("it has no such component")
	}
	file, err := os.Open(found[0])
	if err != nil {
		return err
	}
	defer file.Close()
	policy, binding := &admissionregistrationv1.MutatingAdmissionPolicy{}, &admissionregistrationv1.MutatingAdmissionPolicyBinding{}
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for _, o := range []client.Object{policy, binding} {
		if err := decoder.Decode(o); err != nil {
			return fmt.Errorf("%s: %w", found[0], err)
		}
	}
	selector := policy.Spec.MatchConstraints.NamespaceSelector
	selector.MatchExpressions = append(selector.MatchExpressions,
		metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{oursNamespace}})
	for _, o := range []client.Object{policy, binding} {
		if err := w.seed.Create(ctx, o); err != nil {
			return err
		}
	}
	return await(ctx, "the policy to protect pods before the webhook", func(ctx context.Context) (bool, error) {
		before, err := w.webhookCalls(ctx)
		if err != nil {
			return false, err
		}
		if err := w.seed.Create(ctx, onNetwork(oursNamespace, "probe"), client.DryRunAll); err != nil {
			return false, err
		}
		after, err := w.webhookCalls(ctx)
		return after == before, err
	})
}
