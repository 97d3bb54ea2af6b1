// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/protection"
)

// unprotectEarly removes the finalizer of a pod that never needed it: the admission policy in the API server cannot read network definitions, and
// protects every pod that names a network. It waits for network-status, which Multus writes after all ADDs. Cached definitions only decide whether
// the definitions and pools are read live.
func (r *Reconciler) unprotectEarly(ctx context.Context, v *view) error {
	if v.pod.Annotations[podnetwork.StatusAnnotation] == "" || v.pod.Status.Phase != corev1.PodRunning {
		return nil
	}
	cached, err := r.definitions(ctx, v.pod, r.client, false) // a malformed annotation is protected here, before any live read
	if err != nil || protection.Decide(cached, r.manages).Protect {
		return err
	}
	live, err := r.definitions(ctx, v.pod, r.live, true)
	if err != nil || !protection.ProvablyUnguarded(live, r.manages) {
		return err
	}
	for _, backend := range r.options.Backends {
		held, err := backend.Live(ctx, v.query(backend.Name()))
		if err != nil || len(held.Entries) > 0 || len(held.Problems) > 0 {
			return err
		}
	}
	way, err := r.finalizers.Unprotect(ctx, v.target())
	if err != nil {
		return err
	}
	metrics.Unprotects.WithLabelValues(string(way)).Inc()
	return nil
}

// definitions are the pod's facts with the definitions of its networks. Each is read once, up to a bound: the others stay unknown.
func (r *Reconciler) definitions(ctx context.Context, pod *corev1.Pod, reader client.Reader, live bool) (protection.Facts, error) {
	facts := protection.FactsOf(&pod.ObjectMeta, pod.Spec.HostNetwork, r.options.Rules)
	read := map[client.ObjectKey]protection.Definition{}
	for i := range facts.Networks {
		network := &facts.Networks[i]
		key := client.ObjectKey{Namespace: network.Namespace, Name: network.Name}
		definition, done := read[key]
		if !done && len(read) < podnetwork.MaxDefinitions {
			var err error
			if definition, err = readDefinition(ctx, reader, key); err != nil {
				return facts, fmt.Errorf("reading network %s of %s: %w", key, pod.Name, err)
			}
			definition.Live = live
			read[key] = definition
		}
		network.Definition = definition
	}
	return facts, nil
}

func readDefinition(ctx context.Context, reader client.Reader, key client.ObjectKey) (protection.Definition, error) {
	var definition nadv1.NetworkAttachmentDefinition
	err := reader.Get(ctx, key, &definition)
	switch {
	case apierrors.IsNotFound(err):
		return protection.Definition{State: protection.Absent}, nil
	case err != nil:
		return protection.Definition{}, err
	}
	return protection.Definition{State: protection.Known, Config: definition.Spec.Config}, nil
}

// manages says whether any backend manages an IPAM.
func (r *Reconciler) manages(i podnetwork.IPAM) bool {
	return slices.ContainsFunc(r.options.Backends, func(b ipam.Backend) bool { return b.Manages(i) })
}
