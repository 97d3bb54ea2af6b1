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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/served"
)

const (
	// sweepPage is how many objects one request reads; no more of them are held at once.
	sweepPage = 500
	// sweepStarts is how often a sweep begins anew because the API server has forgotten where it was.
	sweepStarts = 3
	// sweepReadTimeout bounds one request. A CRD with a dead conversion webhook answers after as long.
	sweepReadTimeout = 30 * time.Second
)

// locate finds the version in which a policy's resource is read: the first that is served of those that the policy names. It asks the API
// server once, and again after an answer that it serves something else. Where none is served the error is a NoMatch error.
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
			return schema.GroupVersionResource{}, fmt.Errorf("asking the API server for resource %s: %w", resource, err)
		}
		return found.GroupVersionResource, nil
	}
	return schema.GroupVersionResource{}, nil
}

// walk reads every object that the options select, page by page, and shows each. It begins anew, after calling restart,
// when the API server no longer knows where it was; a page that cannot be read is an error, and what was shown is then
// not all there is.
func (s *sweeper) walk(ctx context.Context, resource schema.GroupVersionResource, o metav1.ListOptions, restart func(),
	show func(*unstructured.Unstructured) error) error {
	var err error
	for range sweepStarts {
		restart()
		if err = s.pages(ctx, resource, o, show); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			break
		}
	}
	return err
}

func (s *sweeper) pages(ctx context.Context, resource schema.GroupVersionResource, o metav1.ListOptions, show func(*unstructured.Unstructured) error) error {
	o.Limit = sweepPage
	for {
		page, err := s.page(ctx, resource, o)
		if err != nil {
			return fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
		}
		for i := range page.Items {
			if err := show(&page.Items[i]); err != nil {
				return err
			}
		}
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return nil
		}
	}
}

func (s *sweeper) page(ctx context.Context, resource schema.GroupVersionResource, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepReadTimeout)
	defer cancel()
	return s.objects.Resource(resource).List(ctx, o)
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
	case apierrors.IsNotFound(err):
		return release.Absent[nodeidentity.Node]()
	case err != nil:
		return release.Unknown[nodeidentity.Node](fmt.Sprintf("Node %s could not be read: %v", name, err))
	default:
		return release.Known(nodeidentity.Node{UID: node.UID, CreationTimestamp: node.CreationTimestamp.Time})
	}
}

// nodeReader reads each Node live at most once.
type nodeReader struct {
	read  func(ctx context.Context, name string) nodeidentity.Evidence
	known map[string]nodeidentity.Evidence
}

func (s *sweeper) newNodeReader() *nodeReader {
	return &nodeReader{read: s.liveNode, known: map[string]nodeidentity.Evidence{}}
}

func (r *nodeReader) get(ctx context.Context, name string) nodeidentity.Evidence {
	evidence, known := r.known[name]
	if !known {
		evidence = r.read(ctx, name)
		r.known[name] = evidence
	}
	return evidence
}
