// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	_ "embed" // for the manifests
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/history"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/observer"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/acn"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/dnc"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testing/manifests"
)

const (
	// nodePrefixBits is the length of a node's prefix: 16 addresses, two prefixes in a run's range.
	nodePrefixBits = 28
	azureNamespace = "kube-system"
	dncAccount     = "azure-dnc"
	// collector is the garbage collector's account.
	collector = "system:serviceaccount:kube-system:generic-garbage-collector"

	fieldOwner = client.FieldOwner("holdfast-demo")
)

//go:embed azure.yaml
var azureManifest []byte

//go:embed slow-garbage-collector.yaml
var slowCollectorManifest []byte

// overlay is Azure's network around one run.
type overlay struct {
	*stage
	dnc *dnc.DNC
	// refused gets the first write of DNC that admission refuses.
	refused chan error

	// cleanedUp reports whether DNC is through with the clean-up after the dead machine.
	cleanedUp atomic.Bool

	seen     int // events of the simulated machines that were looked through
	replaced bool
	// cnsSpoke reports whether the CNS of the new machine, or its init container, has said something.
	cnsSpoke bool
}

// startOverlay installs CNS on the run's nodes and runs DNC until ctx is done. No node has joined yet.
func (s *stage) startOverlay(ctx context.Context) (*overlay, error) {
	objects, err := manifests.Parse(azureManifest)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	set := &appsv1.DaemonSet{}
	for _, o := range objects {
		if o.GetKind() == "DaemonSet" {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, set)
		} else {
			err = s.apply(ctx, o)
		}
		if err != nil {
			return nil, err
		}
	}
	if s.guard {
		if err := s.cluster.GuardNodeResource(ctx, acn.Resource); err != nil {
			return nil, fmt.Errorf("guarding %s: %w", acn.Resource, err)
		}
		s.note("the policy for NodeNetworkConfigs is enforced, and CNS gets the init container wait-node-resource")
	}
	if err := s.createCNS(ctx, set); err != nil {
		return nil, err
	}
	return s.startDNC(ctx)
}

// createCNS makes the DaemonSet for the run's nodes.
func (s *stage) createCNS(ctx context.Context, set *appsv1.DaemonSet) error {
	set.Spec.Template.Spec.Affinity = podSpec(s.first, s.second).Affinity
	set.Spec.Template.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = nil
	if s.guard {
		if err := s.cluster.AddWait(ctx, set); err != nil {
			return fmt.Errorf("init container of CNS: %w", err)
		}
	}
	if err := s.client.Create(ctx, set); err != nil {
		return fmt.Errorf("creating the DaemonSet of CNS: %w", err)
	}
	return nil
}

func (s *stage) startDNC(ctx context.Context) (*overlay, error) {
	identity, err := controlplane.ServiceAccount(ctx, s.cluster.Config(), azureNamespace, dncAccount, nil)
	if err != nil {
		return nil, err
	}
	c, err := client.New(identity, client.Options{Scheme: s.client.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("client of DNC: %w", err)
	}
	o := &overlay{stage: s, refused: make(chan error, 1)}
	o.dnc, err = dnc.New(dnc.Options{
		Client: c, Range: s.pool, Bits: nodePrefixBits, CleanUp: func(string) bool { return o.cleanedUp.Load() },
		Report: s.note, Failed: o.failed,
	})
	if err != nil {
		return nil, err
	}
	go o.dnc.Run(ctx)
	return o, nil
}

// failed keeps the first refusal.
func (o *overlay) failed(_ string, err error) {
	if !apierrors.IsForbidden(err) {
		return
	}
	select {
	case o.refused <- err:
	default:
	}
}

// join makes a node one of the overlay's, and waits until it is Ready, which its CNS makes it.
func (o *overlay) join(ctx context.Context, node string) error {
	o.dnc.Join(node)
	return o.await(ctx, "node "+node+" to be Ready", nodeTimeout, func(ctx context.Context) (bool, string, error) {
		if err := o.noteEvents(ctx); err != nil {
			return false, "", err
		}
		object := &corev1.Node{}
		err := o.client.Get(ctx, client.ObjectKey{Name: node}, object)
		return err == nil && observer.IsReady(object), "it is not", err
	})
}

// slowCollector keeps the garbage collector from NodeNetworkConfigs, until the function that it returns is called. One
// such object has to be there, by which it sees that the policy works.
func (o *overlay) slowCollector(ctx context.Context) (end func(context.Context) error, err error) {
	objects, err := manifests.Parse(slowCollectorManifest)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	for _, object := range objects {
		if err := o.apply(ctx, object); err != nil {
			return nil, err
		}
	}
	config := o.cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: collector}
	asCollector, err := client.New(config, client.Options{Scheme: o.client.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("client of the garbage collector: %w", err)
	}
	probe := acn.Object()
	probe.SetNamespace(acn.Namespace)
	probe.SetName(o.first)
	err = o.await(ctx, "the garbage collector to be held up", podTimeout, func(ctx context.Context) (bool, string, error) {
		err := asCollector.Delete(ctx, probe, client.DryRunAll)
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return true, "", nil
		}
		return false, "it is not", err
	})
	return func(ctx context.Context) error {
		var errs []error
		for _, object := range objects {
			errs = append(errs, client.IgnoreNotFound(o.client.Delete(ctx, object)))
		}
		return errors.Join(errs...)
	}, err
}

// awaitConfig waits until the NodeNetworkConfig of the node, which is nil where there is none, is as it should be. It
// shows what CNS says meanwhile.
func (o *overlay) awaitConfig(ctx context.Context, what, node string, as func(*unstructured.Unstructured) bool) error {
	return o.await(ctx, what, podTimeout, func(ctx context.Context) (bool, string, error) {
		if err := o.noteEvents(ctx); err != nil {
			return false, "", err
		}
		config, err := acn.Get(ctx, o.client, node)
		if err != nil {
			return false, "", err
		}
		if config == nil {
			return as(nil), "there is no NodeNetworkConfig of the name", nil
		}
		prefixes, err := acn.Prefixes(config)
		return as(config), fmt.Sprintf("NodeNetworkConfig %s of Node UID %s, deleted %t, prefixes %v",
			config.GetUID(), acn.NodeUID(config), config.GetDeletionTimestamp() != nil, prefixes), err
	})
}

// countLost waits until DNC keeps no prefix for a deleted Node. What it keeps for as long as an entry needs to count
// as leaked is lost.
func (o *overlay) countLost(ctx context.Context) error {
	deadline := time.Now().Add(history.LeakWindow)
	return o.await(ctx, "the prefixes in use to be those of live Nodes", podTimeout, func(ctx context.Context) (bool, string, error) {
		lost := 0
		for _, a := range o.dnc.Allocations() {
			node := &corev1.Node{}
			err := o.client.Get(ctx, client.ObjectKey{Name: a.NodeName}, node)
			switch {
			case apierrors.IsNotFound(err), err == nil && node.UID != a.NodeUID:
				lost++
			case err != nil:
				return false, "", err
			}
		}
		if lost > 0 && time.Now().Before(deadline) {
			return false, fmt.Sprintf("%d are not", lost), nil
		}
		o.lostPrefixes = lost
		return true, "", nil
	})
}

func (s *stage) apply(ctx context.Context, o *unstructured.Unstructured) error {
	if err := s.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}
