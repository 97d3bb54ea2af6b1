// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

// maxCompiled is how many versions of policies are kept compiled. A cluster has about as many policies as it has
// resources to guard; an old version is dropped when there are this many newer ones.
const maxCompiled = 128

// policy reads a policy, nil if there is none. A policy that the cache does not have is read live: its webhook may be known
// to the API server before the policy is in this replica's cache.
func (g *nodeResourceGuard) policy(ctx context.Context, name string) (*v1alpha1.NodeResourcePolicy, error) {
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return nil, fmt.Errorf("the path is %q, expected %s and the name of a NodeResourcePolicy: %s",
			nodepolicy.PathPrefix+name, nodepolicy.PathPrefix, strings.Join(wrong, "; "))
	}
	policy := &v1alpha1.NodeResourcePolicy{}
	err := g.cached.Get(ctx, client.ObjectKey{Name: name}, policy)
	if apierrors.IsNotFound(err) {
		err = g.live.Get(ctx, client.ObjectKey{Name: name}, policy)
	}
	switch {
	case err == nil:
		return policy, nil
	case apierrors.IsNotFound(err):
		return nil, nil
	default:
		return nil, fmt.Errorf("reading NodeResourcePolicy %s: %w", name, err)
	}
}

// compiledPolicies keeps policies compiled, each version once, however many requests wait for it.
type compiledPolicies struct {
	mu       sync.Mutex
	versions *lru.Cache
}

// policyVersion identifies the content of a policy's specification: the API server counts its changes.
type policyVersion struct {
	uid        types.UID
	generation int64
}

type compilation = func() (*nodepolicy.Compiled, error)

func newCompiledPolicies() *compiledPolicies {
	return &compiledPolicies{versions: lru.New(maxCompiled)}
}

// of compiles a policy, or gives what an earlier call made of the same version. The policy must not be changed afterwards.
func (c *compiledPolicies) of(policy *v1alpha1.NodeResourcePolicy) (*nodepolicy.Compiled, error) {
	return c.compilation(policy)()
}

func (c *compiledPolicies) compilation(policy *v1alpha1.NodeResourcePolicy) compilation {
	version := policyVersion{policy.UID, policy.Generation}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.versions.Get(version); ok {
		return known.(compilation)
	}
	made := sync.OnceValues(func() (*nodepolicy.Compiled, error) { return nodepolicy.Compile(policy) })
	c.versions.Add(version, made)
	return made
}
