// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	whereaboutsv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	holdfastv1alpha1 "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/observer"
)

// dumpEvents is how many of the namespace's latest warnings a dump shows.
const dumpEvents = 5

// dump shows the objects of a run as kubectl would, to explain a failure. What cannot be read says so. The guard's
// records are shown here and nowhere counted.
func (s *stage) dump(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dumpTimeout)
	defer cancel()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, part := range []func(context.Context, *tabwriter.Writer) error{
		s.dumpNodes, s.dumpPods, s.dumpPools, s.dumpAllocations, s.dumpWarnings,
	} {
		if err := part(ctx, w); err != nil && !meta.IsNoMatchError(err) {
			fmt.Fprintf(w, "  (%v)\n", err)
		}
	}
	w.Flush() // a strings.Builder takes everything
	return strings.TrimRight(b.String(), "\n")
}

func (s *stage) dumpNodes(ctx context.Context, w *tabwriter.Writer) error {
	fmt.Fprintln(w, "  NODE\tREADY\tTAINTS")
	for _, name := range []string{s.first, s.second} {
		node := &corev1.Node{}
		if err := s.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		var taints []string
		for _, t := range node.Spec.Taints {
			taints = append(taints, t.Key+":"+string(t.Effect))
		}
		fmt.Fprintf(w, "  %s\t%t\t%s\n", name, observer.IsReady(node), strings.Join(taints, " "))
	}
	return nil
}

func (s *stage) dumpPods(ctx context.Context, w *tabwriter.Writer) error {
	var pods corev1.PodList
	if err := s.client.List(ctx, &pods, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	fmt.Fprintf(w, "  POD (%s)\tUID\tNODE\tPHASE\tDELETED\tFINALIZERS\tIPSRELEASED\n", s.namespace)
	for _, p := range pods.Items {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%t\t%s\t%s\n", p.Name, p.UID, p.Spec.NodeName, p.Status.Phase,
			p.DeletionTimestamp != nil, strings.Join(p.Finalizers, " "), ipsReleased(p))
	}
	return nil
}

func ipsReleased(pod corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == holdfastv1alpha1.IPsReleasedCondition {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

func (s *stage) dumpPools(ctx context.Context, w *tabwriter.Writer) error {
	var pools whereaboutsv1alpha1.IPPoolList
	if err := s.client.List(ctx, &pools); err != nil {
		return err
	}
	fmt.Fprintln(w, "  IPPOOL\tRANGE\tOFFSET\tSANDBOX\tPODREF")
	for _, pool := range pools.Items {
		prefix, err := netip.ParsePrefix(pool.Spec.Range)
		if err != nil || !prefix.Overlaps(s.pool) {
			continue
		}
		for offset, a := range pool.Spec.Allocations {
			fmt.Fprintf(w, "  %s\t%s\t%s\t%.8s\t%s\n", pool.Name, pool.Spec.Range, offset, a.ContainerID, a.PodRef)
		}
	}
	return nil
}

func (s *stage) dumpAllocations(ctx context.Context, w *tabwriter.Writer) error {
	var records holdfastv1alpha1.IPAllocationList
	if err := s.client.List(ctx, &records); err != nil {
		return err
	}
	fmt.Fprintln(w, "  IPALLOCATION\tPOD\tNODE\tADDRESSES\tSTATE\tRELEASED")
	for _, r := range records.Items {
		if r.Spec.PodNamespace != s.namespace {
			continue
		}
		var addresses []string
		for _, a := range r.Spec.Addresses {
			addresses = append(addresses, a.IP)
		}
		released := ""
		if c := meta.FindStatusCondition(r.Status.Conditions, holdfastv1alpha1.ReleasedCondition); c != nil {
			released = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Spec.PodName, r.Spec.NodeName, strings.Join(addresses, " "), r.RecordState(), released)
	}
	return nil
}

func (s *stage) dumpWarnings(ctx context.Context, w *tabwriter.Writer) error {
	var list corev1.EventList
	if err := s.client.List(ctx, &list, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	warnings := slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return e.Type != corev1.EventTypeWarning })
	slices.SortFunc(warnings, func(a, b corev1.Event) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	fmt.Fprintln(w, "  WARNING\tOBJECT\tMESSAGE")
	for _, e := range warnings[max(0, len(warnings)-dumpEvents):] {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", e.Reason, e.InvolvedObject.Name, e.Message)
	}
	return nil
}
