// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

const (
	policed  = "with a policy"
	noPolicy = "no policy"

	// guardedResource is one that no preset of this experiment guards.
	guardedResource = "nodeinfo"
	nodeInfoAPI     = "/apis/multitenancy.acn.azure.com/v1alpha1/nodeinfo/"
	// writingNodes are the agents that write in a turn: as many as write in five seconds.
	writingNodes = watchingAgents / 3
)

// nodeObjects writes objects of nodes as the nodes' own agents do, with the identity of a token that is bound to the node.
var nodeObjects = experiment{
	repeats: 3, // with a new policy the manager looks at each of the objects, which takes minutes
	cold:    true,
	needs:   needs{configure: func(c *configv1alpha1.ManagerConfiguration) { c.NodeResources.Presets = []string{"nodenetworkconfigs"} }},
	rows: []row{{
		Row: page.Row{Name: "node-objects", Title: "processor time of the manager while 5,000 agents of nodes write their node's object once in 15 seconds", Against: "no policy", Unit: "seconds",
			Target: result.Target{Op: result.AtMost, Value: 0}, Limit: "No write reaches the webhook; what is left is the difference between two idle times of the manager."},
		figure: func(turns map[string]result.Turn) float64 {
			idle, busy := turns[noPolicy], turns[policed]
			background := idle.CPUSeconds["manager"] * idle.PerSecond() * busy.WallSeconds / float64(busy.Operations)
			return (busy.CPUSeconds["manager"] - background) * watchingAgents
		},
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		nodes, err := w.register(ctx)
		if err != nil {
			return nil, err
		}
		w.forget("kube-controller-manager") // it would write each new Node
		if err := w.cluster.ControlPlane().ControllerManager().Stop(0); err != nil {
			return nil, err
		}
		if err := w.nodeInfos(ctx, nodes); err != nil {
			return nil, err
		}
		clientset, err := w.loadClient(ctx,
			rbacv1.PolicyRule{APIGroups: []string{"multitenancy.acn.azure.com"}, Resources: []string{guardedResource}, Verbs: []string{"patch"}},
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"load"}, Verbs: []string{"impersonate"}},
			rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"userextras/" + tokenNode + "name", "userextras/" + tokenNode + "uid"}, Verbs: []string{"impersonate"}})
		if err != nil {
			return nil, err
		}
		a := &nodeAgents{w: w, client: clientset.CoreV1().RESTClient(), nodes: nodes}
		return []arm{{name: policed, before: a.police, run: a.write}, {name: noPolicy, before: a.unpolice, run: a.write}}, nil
	},
}

// tokenNode begins the names of what a token says of the node that it is bound to.
const tokenNode = "authentication.kubernetes.io/node-"

// nodeInfos makes the Nodes and an object of each.
func (w *world) nodeInfos(ctx context.Context, nodes *registered) error {
	info := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "multitenancy.acn.azure.com/v1alpha1", "kind": "NodeInfo", "spec": map[string]any{"vmUniqueID": "0"}}}
	info.SetName(deadNode)
	info.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: deadNode, UID: nodes.node}})
	if err := w.seed.Create(ctx, info); err != nil {
		return err
	}
	if err := nodes.add(ctx, w, nodeInfoAPI+deadNode, "/registry/multitenancy.acn.azure.com/"+guardedResource+"/"+deadNode); err != nil {
		return err
	}
	w.forget("manager") // it would see objects of Nodes that it does not see yet
	if err := w.cluster.Manager().Stop(0); err != nil {
		return err
	}
	return errors.Join(w.eachCopy(ctx, w.size(watchingAgents, watchingAgents/20), nodes.copied, nodes.as, putOf), w.cluster.StartManager(ctx), w.awaitIdle(ctx))
}

// nodeAgents are the writers.
type nodeAgents struct {
	w         *world
	client    rest.Interface
	nodes     *registered
	isPoliced bool
	written   int
}

// police returns once the manager has looked at each object, as it does for a new policy.
func (a *nodeAgents) police(ctx context.Context) error {
	if a.isPoliced {
		return nil
	}
	a.isPoliced = true
	if err := a.w.cluster.GuardNodeResource(ctx, guardedResource); err != nil {
		return err
	}
	return a.w.awaitIdle(ctx)
}

func (a *nodeAgents) unpolice(ctx context.Context) error {
	if !a.isPoliced {
		return nil
	}
	a.isPoliced = false
	if err := a.w.seed.Delete(ctx, &v1alpha1.NodeResourcePolicy{ObjectMeta: metav1.ObjectMeta{Name: guardedResource}}); err != nil {
		return err
	}
	err := await(ctx, "no webhook for "+guardedResource, func(ctx context.Context) (bool, error) {
		var c admissionregistrationv1.ValidatingWebhookConfiguration
		err := a.w.seed.Get(ctx, client.ObjectKey{Name: "holdfast-node-resources"}, &c)
		for i := range c.Webhooks {
			if strings.HasPrefix(c.Webhooks[i].Name, guardedResource+".") {
				return false, err
			}
		}
		return true, client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	return a.w.awaitIdle(ctx)
}

// write has agents write one after the other, those of the last turn last.
func (a *nodeAgents) write(ctx context.Context) (int, map[string]float64, error) {
	before, err := a.w.webhookCalls(ctx)
	if err != nil {
		return 0, nil, err
	}
	n, all := a.w.size(writingNodes, writingNodes/20), a.w.size(watchingAgents, watchingAgents/20)
	first := a.written
	a.written += n
	err = inParallel(ctx, clients, n, func(ctx context.Context, i int) error {
		node := (first + i) % all
		return a.client.Patch(types.MergePatchType).AbsPath(nodeInfoAPI+agentNode(node)).
			SetHeader("Impersonate-User", "load").
			SetHeader("Impersonate-Extra-"+strings.ReplaceAll(tokenNode, "/", "%2f")+"name", agentNode(node)).
			SetHeader("Impersonate-Extra-"+strings.ReplaceAll(tokenNode, "/", "%2f")+"uid", a.nodes.uid(0, node)).
			Body([]byte(`{"spec":{"vmUniqueID":"` + strconv.Itoa(first+i+1) + `"}}`)).Do(ctx).Error()
	})
	if err != nil {
		return 0, nil, fmt.Errorf("writing objects of nodes: %w", err)
	}
	after, err := a.w.webhookCalls(ctx)
	return n, map[string]float64{admitted: (after - before) / float64(n)}, err
}
