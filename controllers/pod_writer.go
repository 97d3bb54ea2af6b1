// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

// podWriter is every write of a pod that the controllers make. What its methods do is said at finalizer.Client and podClient.
type podWriter interface {
	Add(ctx context.Context, pod finalizer.Pod) error
	Relabel(ctx context.Context, pod finalizer.Pod) error
	Unstamp(ctx context.Context, pod finalizer.Pod) (finalizer.Way, error)
	Remove(ctx context.Context, pod finalizer.Pod) (finalizer.Way, error)
	Explain(ctx context.Context, pod finalizer.Pod, condition map[string]any) error
}

// podClient writes pods.
type podClient struct {
	finalizer.Client
}

// Explain writes one condition of a pod. A pod that is gone by now needs none.
func (c podClient) Explain(ctx context.Context, pod finalizer.Pod, condition map[string]any) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		return fmt.Errorf("encoding the condition of %s: %w", pod, err)
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = c.Writer.Status().Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(finalizer.FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("explaining on %s what it waits for: %w", pod, err)
	}
	return nil
}

// letGoWriter writes only what lets a pod go that the guard stamped before: without the label nobody would see its end. All else is
// reported.
type letGoWriter struct {
	podWriter
	report *shadow.Reporter
}

// Add reports a pod that would have been stamped late.
func (w letGoWriter) Add(ctx context.Context, pod finalizer.Pod) error {
	return w.report.Withhold(ctx, shadow.StampLate, pod.String(), "the pod holds an address and has no finalizer")
}

// Explain reports the reason that the pod's condition would have had; the events and the record have its words.
func (w letGoWriter) Explain(ctx context.Context, pod finalizer.Pod, condition map[string]any) error {
	return shadow.Ignore(w.report.Withhold(ctx, shadow.Explain, fmt.Sprintf("%s: %s", pod, condition["reason"]), fmt.Sprint(condition["message"])))
}
