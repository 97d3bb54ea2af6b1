// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
	"github.com/holdfast-dev/holdfast/internal/release"
)

const (
	// sweepPage is how many objects one request reads; no more of them are held at once.
	sweepPage = 500
	// sweepStarts is how often a sweep begins anew because the API server has forgotten where it was.
	sweepStarts = 3
	// sweepReadTimeout bounds one request. A CRD with a dead conversion webhook answers after as long.
	sweepReadTimeout = 30 * time.Second

	anyVersion = "*"
)

// sweepResources finds the version in which a resource is read. It asks the API server once, and again after forget.
type sweepResources struct {
	config *rest.Config
	http   *http.Client
	mu     sync.Mutex
	mapper meta.RESTMapper
}

func newSweepResources(config *rest.Config, client *http.Client) *sweepResources {
	return &sweepResources{config: config, http: client}
}

// forget drops what is known: the API server has just said that it serves something else.
func (r *sweepResources) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mapper = nil
}

func (r *sweepResources) current() (meta.RESTMapper, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mapper == nil {
		mapper, err := apiutil.NewDynamicRESTMapper(r.config, r.http)
		if err != nil {
			return nil, fmt.Errorf("preparing to ask the API server what it serves: %w", err)
		}
		r.mapper = mapper
	}
	return r.mapper, nil
}

// find is the resource in the first version of the list that is served; "*" is the one that the API server prefers. Where
// none is served the error is a NoMatch error.
func (r *sweepResources) find(resource v1alpha1.GuardedResource) (schema.GroupVersionResource, error) {
	mapper, err := r.current()
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	wanted := schema.GroupVersionResource{Group: resource.Group, Resource: resource.Resource}
	versions := resource.Versions
	if len(versions) == 0 || slices.Contains(versions, anyVersion) {
		versions = []string{""}
	}
	for _, version := range versions {
		served, err := mapper.ResourceFor(wanted.GroupResource().WithVersion(version))
		switch {
		case meta.IsNoMatchError(err):
		case err != nil:
			return schema.GroupVersionResource{}, fmt.Errorf("asking the API server for resource %s: %w", wanted.GroupResource(), err)
		case served.GroupResource() == wanted.GroupResource(): // the mapper also takes a group's first letters for the group
			return served, nil
		}
	}
	return schema.GroupVersionResource{}, &meta.NoResourceMatchError{PartialResource: wanted}
}

// served says whether the API server has the resource in any version.
func (r *sweepResources) served(resource schema.GroupResource) (bool, error) {
	mapper, err := r.current()
	if err != nil {
		return false, err
	}
	all, err := mapper.ResourcesFor(resource.WithVersion(""))
	if err != nil && !meta.IsNoMatchError(err) {
		return false, fmt.Errorf("asking the API server for resource %s: %w", resource, err)
	}
	return slices.ContainsFunc(all, func(found schema.GroupVersionResource) bool { return found.GroupResource() == resource }), nil
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
