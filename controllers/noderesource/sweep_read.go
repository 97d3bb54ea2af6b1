// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/served"
)

const (
	// sweepPage is how many objects one request reads.
	sweepPage = 500
	// sweepStarts bounds how often a list begins anew because its continuation has expired.
	sweepStarts = 3
	// sweepReadTimeout bounds one request, for example where a CRD's conversion webhook does not respond.
	sweepReadTimeout = 30 * time.Second
)

// locate finds the version in which a policy's resource is read: the first that is served of those that the policy names. It is kept until a
// read shows that it is no longer served. Where none is served the error is a NoMatch error.
func (s *sweeper) locate(ctx context.Context, p *sweptPolicy) (schema.GroupVersionResource, error) {
	if !p.resource.Empty() {
		return p.resource, nil
	}
	found, err := s.served(ctx, p.compiled.Resource(), p.compiled.Spec().Resource.Versions)
	if err == nil && found.Empty() {
		err = &meta.NoResourceMatchError{PartialResource: p.compiled.Resource().WithVersion("")}
	}
	p.resource = found
	return found, err
}

// served is the resource in the first of the versions that is served; empty where none is.
func (s *sweeper) served(ctx context.Context, resource schema.GroupResource, versions []string) (schema.GroupVersionResource, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepReadTimeout)
	defer cancel()
	for found, err := range served.In(ctx, s.api, resource, versions) {
		if err != nil {
			return schema.GroupVersionResource{}, fmt.Errorf("discovering resource %s: %w", resource, err)
		}
		return found.GroupVersionResource, nil
	}
	return schema.GroupVersionResource{}, nil
}

// walk looks at every object that the options select, anew where the list's continuation has expired. After an error, the tally is not complete.
func (s *sweeper) walk(ctx context.Context, run *sweepRun, o metav1.ListOptions) error {
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeout(ctx, sweepReadTimeout)
		defer cancel()
		page, err := s.objects.Resource(run.resource).List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", run.resource.GroupResource(), err)
		}
		return page, nil
	})
	list.PageSize, list.PageBufferSize, list.FullListIfExpired = sweepPage, 0, false
	var err error
	for range sweepStarts {
		run.nodes, run.tally = nodeReader{}, newSweepTally()
		err = list.EachListItem(ctx, o, func(object runtime.Object) error {
			s.look(ctx, run, object.(*unstructured.Unstructured))
			return ctx.Err()
		})
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			break
		}
	}
	return err
}

// get reads one object live.
func (s *sweeper) get(ctx context.Context, resource schema.GroupVersionResource, key types.NamespacedName) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepReadTimeout)
	defer cancel()
	return s.objects.Resource(resource).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
}

// cachedNode is a Node as the cache has it.
func (s *sweeper) cachedNode(ctx context.Context, name string) nodeidentity.Evidence {
	var node corev1.Node
	err := s.client.Get(ctx, types.NamespacedName{Name: name}, &node)
	return nodeidentity.Evidence{Source: nodeidentity.Cached, Node: nodeFact(name, &node.ObjectMeta, err)}
}

// liveNode reads a Node from the API server. A Node that is seen is not missing.
func (s *sweeper) liveNode(ctx context.Context, name string) nodeidentity.Evidence {
	ctx, cancel := context.WithTimeout(ctx, sweepReadTimeout)
	defer cancel()
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err := s.live.Get(ctx, client.ObjectKey{Name: name}, node)
	fact := nodeFact(name, &node.ObjectMeta, err)
	if fact.IsKnown() {
		s.missing.found(name)
	}
	return nodeidentity.Evidence{Source: nodeidentity.Live, Node: fact}
}

func nodeFact(name string, node *metav1.ObjectMeta, err error) release.Fact[nodeidentity.Node] {
	switch {
	case served.IsAbsent(err):
		return release.Absent[nodeidentity.Node]()
	case err != nil:
		return release.Unknown[nodeidentity.Node](fmt.Sprintf("Node %s could not be read: %v", name, err))
	default:
		return release.Known(nodeidentity.Node{UID: node.UID, CreationTimestamp: node.CreationTimestamp.Time})
	}
}

// nodeReader reads each Node live at most once.
type nodeReader map[string]nodeidentity.Evidence

func (r nodeReader) get(ctx context.Context, s *sweeper, name string) nodeidentity.Evidence {
	evidence, known := r[name]
	if !known {
		evidence = s.liveNode(ctx, name)
		r[name] = evidence
	}
	return evidence
}
