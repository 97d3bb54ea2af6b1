// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	_ "embed" // for the manifest
	"errors"
	"fmt"
	"net/netip"
	"strings"

	whereaboutsv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode"
	"github.com/holdfast-dev/holdfast/internal/testing/manifests"
)

//go:embed refused-pool-writes.yaml
var refusedWritesManifest []byte

// secondRange is a CNI DEL that stops half-way.
func secondRange() scenario {
	return scenario{
		name:  "second-range-leaked",
		title: "CNI DEL stops at a range without an entry, and the address of the next range is lost",
		harm: "A pod has an address of each of two ranges. The write of its first entry was refused, by a missing right or another webhook, which " +
			"whereabouts takes for success. When the pod ends, DEL finds no entry in the first range and stops there: the entry in the second one " +
			"stays for ever.",
		guard: "the pod's object is held until every pool is empty of it. The kubelet's report that the pod ended is the evidence; Holdfast " +
			"releases the second entry. (The reservation of the first address, which no entry ever belonged to, is reported as an orphan; whereabouts' " +
			"reconciler clears it.)",
		play: playSecondRange,
		bits: 27,
		networks: func(s *stage) []network {
			return []network{{name: networkName, ipam: map[string]any{"ipRanges": []map[string]any{
				{"range": s.part(0, 28).String()}, {"range": s.part(1, 28).String()},
			}}}}
		},
	}
}

func playSecondRange(ctx context.Context, s *stage) error {
	mend, err := s.refuseWrites(ctx, s.part(0, 28))
	if err != nil {
		return err
	}
	pod, _, err := s.startPod(ctx, "web", s.first, nil)
	if err != nil {
		return err
	}
	if err := mend(ctx); err != nil {
		return err
	}
	if err := s.onlySecondRecorded(pod); err != nil {
		return fmt.Errorf("%w\n%s", err, s.dump(ctx))
	}
	if err := s.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); err != nil {
		return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
	}
	s.note("pod web is deleted")
	if err := s.awaitSandboxEnd(ctx, pod); err != nil {
		return err
	}
	if err := s.awaitGone(ctx, pod.Name, pod.UID); err != nil {
		return err
	}
	s.note("pod web is deleted and absent")
	return nil
}

// onlySecondRecorded checks that the pod has an address of each range, and an entry in the second one only.
func (s *stage) onlySecondRecorded(pod *corev1.Pod) error {
	sandbox, _ := s.sandboxOf(pod.UID)
	if len(sandbox.Addresses) != 2 {
		return fmt.Errorf("pod %s has the addresses %v, expected one of each range", pod.Name, sandbox.Addresses)
	}
	first, second := sandbox.Addresses[0].IP, sandbox.Addresses[1].IP
	sample, _ := s.observer.Latest(s.pool)
	for _, e := range sample.Entries {
		if e.IP == first {
			return fmt.Errorf("the write of the entry for %s was not refused, so the run shows nothing", first)
		}
	}
	s.note("pod web runs on %s with %s and %s; only the second one is recorded", s.first, first, second)
	return nil
}

// refuseWrites makes the pool of a range, which whereabouts' plugin cannot write until the function that is returned is
// called. Both return once the API server follows.
func (s *stage) refuseWrites(ctx context.Context, within netip.Prefix) (mend func(context.Context) error, err error) {
	pool := &whereaboutsv1alpha1.IPPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: simnode.WhereaboutsNamespace, Name: strings.ReplaceAll(within.String(), "/", "-")},
		Spec:       whereaboutsv1alpha1.IPPoolSpec{Range: within.String(), Allocations: map[string]whereaboutsv1alpha1.IPAllocation{}},
	}
	if err := s.client.Create(ctx, pool); err != nil {
		return nil, fmt.Errorf("creating IPPool %s: %w", pool.Name, err)
	}
	objects, err := manifests.Parse(bytes.ReplaceAll(refusedWritesManifest, []byte("POOL"), []byte(pool.Name)))
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	for _, object := range objects {
		if err := s.apply(ctx, object); err != nil {
			return nil, err
		}
	}
	if err := s.awaitWritable(ctx, pool, false); err != nil {
		return nil, err
	}
	s.note("the API server refuses whereabouts' writes of pool %s for a while", pool.Name)
	return func(ctx context.Context) error {
		var errs []error
		for _, object := range objects {
			errs = append(errs, client.IgnoreNotFound(s.client.Delete(ctx, object)))
		}
		return errors.Join(append(errs, s.awaitWritable(ctx, pool, true))...)
	}, nil
}

// awaitWritable waits until whereabouts' plugin may write the pool, or may not.
func (s *stage) awaitWritable(ctx context.Context, pool *whereaboutsv1alpha1.IPPool, want bool) error {
	config := s.cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + simnode.WhereaboutsNamespace + ":" + whereaboutsAccount,
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	plugin, err := client.New(config, client.Options{Scheme: s.client.Scheme()})
	if err != nil {
		return fmt.Errorf("client of whereabouts' plugin: %w", err)
	}
	probe := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"probe":"true"}}}`))
	return s.await(ctx, fmt.Sprintf("writes of pool %s to be let through: %t", pool.Name, want), podTimeout, func(ctx context.Context) (bool, string, error) {
		err := plugin.Patch(ctx, pool.DeepCopy(), probe, client.DryRunAll)
		switch {
		case err == nil:
			return want, "they are let through", nil
		case isRefusal(err):
			return !want, err.Error(), nil
		}
		return false, "", err
	})
}
