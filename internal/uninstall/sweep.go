// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/pages"
)

const (
	// workers remove finalizers concurrently; the client's rate limit bounds them together.
	workers = 16
	// cleanPasses prove it.
	cleanPasses = 2
	// restarts bounds how often a list of pods begins anew because its continuation has expired, after 5 minutes.
	restarts = 5
	// tries, lookInterval apart, are made of a pod that a deleted policy still refuses; the next pass makes more.
	tries = 10
	// shownFailures bounds the failures of one pass that are printed.
	shownFailures = 5
)

// pass is what one read of all pods found, and what became of it.
type pass struct {
	read int
	// held carry the finalizer; labeled only the label.
	held, labeled []finalizer.Pod
	living        map[string]types.UID
	// ending are those of held that are being deleted.
	ending map[types.UID]bool

	mu       sync.Mutex
	ways     map[finalizer.Way]int
	failures []error
}

// sweep reads all pods and removes the finalizer, until two reads in a row, PassInterval apart, have found none. Before each read it removes
// protectors that were applied again.
func (u *uninstallation) sweep(ctx context.Context) error {
	clean := 0
	for number := 1; ; number++ {
		p, err := u.readPods(ctx)
		if err != nil {
			return err
		}
		u.living = p.living
		u.free(ctx, p)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		u.report(number, p)
		if u.DryRun {
			return nil
		}
		if clean++; len(p.held) > 0 {
			clean = 0
		}
		if clean == cleanPasses {
			u.proven = true
			u.print("proven: %d reads of all pods in a row, %s apart, found no finalizer %s", cleanPasses, u.PassInterval, v1alpha1.Finalizer)
			return nil
		}
		if (len(p.held) == 0 || len(p.failures) > 0) && !rest(ctx, u.PassInterval) {
			return ctx.Err()
		}
		back, err := u.removeWhatCameBack(ctx)
		if err != nil {
			return err
		}
		if back {
			clean = 0
		}
	}
}

// removeWhatCameBack stops the manager and deletes protectors once more. A pass before it proves nothing.
func (u *uninstallation) removeWhatCameBack(ctx context.Context) (bool, error) {
	manager, err := u.manager(ctx)
	if err != nil {
		return false, err
	}
	runs := manager != nil && *manager.Spec.Replicas > 0
	found, err := u.findProtectors(ctx)
	if err != nil {
		return false, err
	}
	if !runs && len(found) == 0 {
		return false, nil
	}
	u.print("what protects pods has come back; stop the tool that applies it (a GitOps controller?):")
	if runs {
		if err := u.stop(ctx); err != nil {
			return true, err
		}
	}
	return true, u.remove(ctx, found)
}

// readPods reads the metadata of every pod, from one version of the API server's data.
func (u *uninstallation) readPods(ctx context.Context) (*pass, error) {
	for again := 0; ; again++ {
		p, err := u.readPages(ctx)
		if apierrors.IsResourceExpired(err) && again < restarts {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing all pods: %w", err)
		}
		return p, nil
	}
}

func (u *uninstallation) readPages(ctx context.Context) (*pass, error) {
	p := &pass{living: map[string]types.UID{}, ending: map[types.UID]bool{}, ways: map[finalizer.Way]int{}}
	for page, err := range pages.Metadata(ctx, u.Client, corev1.SchemeGroupVersion.WithKind("Pod")) {
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			p.add(&page.Items[i])
		}
		u.progress("%d pods read", p.read)
	}
	return p, nil
}

func (p *pass) add(object *metav1.PartialObjectMetadata) {
	p.read++
	pod := finalizer.Pod{Namespace: object.Namespace, Name: object.Name, UID: object.UID}
	if object.DeletionTimestamp == nil {
		p.living[object.Namespace+"/"+object.Name] = object.UID
	}
	_, labeled := object.Labels[v1alpha1.GuardedLabel]
	switch {
	case slices.Contains(object.Finalizers, v1alpha1.Finalizer):
		p.held = append(p.held, pod)
		if object.DeletionTimestamp != nil {
			p.ending[pod.UID] = true
		}
	case labeled:
		p.labeled = append(p.labeled, pod)
	}
}

// free removes finalizer and label. A pod that fails is left for the next pass.
func (u *uninstallation) free(ctx context.Context, p *pass) {
	if u.DryRun {
		return
	}
	remover := finalizer.Client{Writer: u.Client, Reader: u.Client}
	todo := append(slices.Clone(p.held), p.labeled...)
	done := 0
	var group errgroup.Group
	group.SetLimit(workers)
	for _, pod := range todo {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			way, err := u.take(ctx, remover, pod, p.ending[pod.UID])
			p.mu.Lock()
			defer p.mu.Unlock()
			if err != nil {
				p.failures = append(p.failures, err)
			} else {
				p.ways[way]++
			}
			done++
			u.progress("%d of %d pods done, %d failed", done, len(todo), len(p.failures))
			return nil
		})
	}
	_ = group.Wait() // no function of it returns an error: they are in the pass
}

// take removes the finalizer from a pod. An API server applies a deleted policy for some seconds more. That accepts a statement on a pod that is
// being deleted; on a living pod the statement would stay, so it tries again.
func (u *uninstallation) take(ctx context.Context, remover finalizer.Client, pod finalizer.Pod, ending bool) (finalizer.Way, error) {
	if ending {
		return remover.GiveUp(ctx, pod, "Holdfast is uninstalled")
	}
	for try := 1; ; try++ {
		way, err := remover.Unprotect(ctx, pod)
		if try == tries || err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+finalizerPolicy+"'") || !rest(ctx, lookInterval) {
			return way, err
		}
	}
}

func (u *uninstallation) report(number int, p *pass) {
	what := fmt.Sprintf("pass %d: %s read, %d with the finalizer (%d of them being deleted), %d with the label only",
		number, count(p.read, "pod", "pods"), len(p.held), len(p.ending), len(p.labeled))
	switch {
	case u.DryRun, len(p.held)+len(p.labeled) == 0:
		u.print("%s", what)
	default:
		u.print("%s; %d freed, %d through pods/status, %d already deleted, %d failed", what,
			p.ways[finalizer.WayPatch], p.ways[finalizer.WayStatus], p.ways[finalizer.WayGone], len(p.failures))
	}
	for i, err := range p.failures {
		if i == shownFailures {
			u.print("  … and %d more", len(p.failures)-shownFailures)
			break
		}
		u.print("  %v; tried again in the next pass", err)
	}
}
