// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

const (
	watched   = "watches of 5,000 agents"
	unwatched = "no watches"

	watchingAgents = 5000
	// writeTime is how long the clients write in one turn.
	writeTime = 5 * time.Second
	// holdfastAPI is where the API server serves our kinds.
	holdfastAPI = "/apis/holdfast.dev/v1alpha1/"
)

// watchedWrites writes records and GuardedNodes under the manager's account, and so in the manager's FlowSchema, in both arms. The manager itself is stopped:
// it would react to each write.
var watchedWrites = experiment{
	repeats: 10,
	rows: []row{{
		Row: page.Row{Name: "watched-writes", Title: "writes of records and GuardedNodes with the watches of 5,000 node agents", Against: "no watches, the same account", Unit: ratio,
			Target: result.Target{Op: result.AtLeast, Value: 0.9},
			Limit:  "A watch by name is charged to the writes of its object alone; 10,000 of them still take memory of the API server, and its time for bookmarks."},
		figure: throughput(watched, unwatched),
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		w.forget("manager")
		if err := w.cluster.Manager().Stop(0); err != nil {
			return nil, err
		}
		writer, err := w.accountOf(ctx, "holdfast-system", "holdfast-manager")
		if err != nil {
			return nil, err
		}
		manager, err := client.New(writer, client.Options{Scheme: scheme})
		if err != nil {
			return nil, err
		}
		inNodes, err := w.hasQueriesInNodes()
		if err != nil {
			return nil, err
		}
		objects, err := makeObjects(ctx, manager, 4*clients, inNodes)
		if err != nil {
			return nil, err
		}
		write := func(ctx context.Context) (int, map[string]float64, error) {
			written, err := updateObjects(ctx, manager, objects)
			return written, nil, err
		}
		agents, err := w.accountOf(ctx, "holdfast-agent", "holdfast-agent")
		if err != nil {
			return nil, err
		}
		o := &observers{config: agents, watches: w.agentWatches(inNodes)}
		w.onStop(func() error { o.close(); return nil })
		return []arm{
			{name: watched, run: write, before: o.open},
			{name: unwatched, run: write, before: func(context.Context) error { o.close(); return nil }},
		}, nil
	},
}

// accountOf is the identity of a ServiceAccount, without a limit of its own.
func (w *world) accountOf(ctx context.Context, namespace, name string) (*rest.Config, error) {
	config, err := controlplane.ServiceAccount(ctx, w.cluster.Config(), namespace, name, nil)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// makeObjects makes records of pods that never were and, where agents watch those, as many GuardedNodes of agents, by turns.
func makeObjects(ctx context.Context, c client.Client, n int, withNodes bool) ([]client.Object, error) {
	objects := make([]client.Object, n)
	return objects, inParallel(ctx, clients, n, func(ctx context.Context, i int) error {
		if withNodes && (i/clients)%2 == 1 {
			objects[i] = &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: agentNode(i)}, Spec: v1alpha1.GuardedNodeSpec{NodeName: agentNode(i),
				Machines: []v1alpha1.GuardedMachine{{MachineID: agentNode(i), FirstSeenTime: metav1.Now()}}}}
			return c.Create(ctx, objects[i])
		}
		objects[i] = &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("00000000-0000-0000-0000-%012d", i)},
			Spec: v1alpha1.IPAllocationSpec{PodNamespace: "bench", PodName: fmt.Sprintf("p-%d", i), NodeName: fmt.Sprintf("bench-node-%d", i),
				Sandboxes: []v1alpha1.SandboxRecord{}, Addresses: []v1alpha1.AddressRecord{}}}
		return c.Create(ctx, objects[i])
	})
}

// updateObjects changes objects as fast as the API server lets clients, for a time, and returns how many writes there were.
func updateObjects(ctx context.Context, c client.Client, objects []client.Object) (int, error) {
	end := time.Now().Add(writeTime)
	var written atomic.Int64
	err := inParallel(ctx, clients, clients, func(ctx context.Context, worker int) error {
		for i := worker; time.Now().Before(end); i += clients {
			object := objects[i%len(objects)]
			object.SetAnnotations(map[string]string{"bench": strconv.FormatInt(written.Add(1), 10)})
			if err := c.Update(ctx, object); err != nil {
				return err
			}
		}
		return nil
	})
	return int(written.Load()), err
}

// agentWatch is a watch of each agent: a kind, and the field selector for a node.
type agentWatch struct {
	kind     string
	selector func(node string) string
}

// agentWatches are those of the node's own GuardedNode and of the AllNodesQuery, both by name. Earlier versions watched records by a field selector: those of
// the node, and before there was an AllNodesQuery those of no node.
func (w *world) agentWatches(inNodes bool) []agentWatch {
	own := agentWatch{"guardednodes", func(node string) string { return "metadata.name=" + node }}
	all := agentWatch{"allnodesqueries", func(string) string { return "metadata.name=" + v1alpha1.AllNodesQueryName }}
	if !inNodes {
		own = agentWatch{"ipallocations", func(node string) string { return "spec.nodeName=" + node }}
	}
	if !w.hasDefinition("allnodesqueries") {
		all = agentWatch{"ipallocations", func(string) string { return "spec.nodeName=" }}
	}
	return []agentWatch{own, all}
}

// definition is the file of a CustomResourceDefinition of the measured version.
func (w *world) definition(resource string) string {
	return filepath.Join(w.options.Root, "config", "crd", "bases", "holdfast.dev_"+resource+".yaml")
}

// hasQueriesInNodes reports whether the measured version has the queries to agents in GuardedNodes.
func (w *world) hasQueriesInNodes() (bool, error) {
	text, err := os.ReadFile(w.definition("guardednodes"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := errors.Join(err, yaml.Unmarshal(text, &definition)); err != nil {
		return false, fmt.Errorf("reading the definition of GuardedNodes: %w", err)
	}
	return slices.ContainsFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		_, has := v.Schema.OpenAPIV3Schema.Properties["spec"].Properties["queries"]
		return has
	}), nil
}

// hasDefinition reports whether the measured version has a kind of its own.
func (w *world) hasDefinition(plural string) bool {
	_, err := os.Stat(w.definition(plural))
	return err == nil
}

// observers are the watches of the agents.
type observers struct {
	config  *rest.Config
	watches []agentWatch
	cancel  context.CancelFunc
	done    sync.WaitGroup
	// closed are the connections to close once no watch is left.
	mutex  sync.Mutex
	closed []func()
}

func (o *observers) onClose(do func()) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.closed = append(o.closed, do)
}

// open begins the watches of each agent, unless they stand.
func (o *observers) open(ctx context.Context) error {
	if o.cancel != nil {
		return nil
	}
	clientset, err := kubernetes.NewForConfig(o.config)
	if err != nil {
		return err
	}
	watching := o.begin(ctx)
	return inParallel(ctx, clients, len(o.watches)*watchingAgents, func(_ context.Context, i int) error {
		stream, err := o.watches[i%len(o.watches)].open(watching, clientset, agentNode(i/len(o.watches)), map[string]string{"resourceVersion": "0"})
		if err != nil {
			return err
		}
		o.drain(stream)
		return nil
	})
}

// begin is the context of the watches, until close.
func (o *observers) begin(ctx context.Context) (watching context.Context) {
	watching, o.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return watching
}

func (a agentWatch) open(ctx context.Context, clientset kubernetes.Interface, node string, parameters map[string]string) (io.ReadCloser, error) {
	request := clientset.CoreV1().RESTClient().Get().AbsPath(holdfastAPI+a.kind).Param("watch", "true").Param("fieldSelector", a.selector(node))
	for name, value := range parameters {
		request = request.Param(name, value)
	}
	return request.Stream(ctx)
}

// drain reads a watch until close.
func (o *observers) drain(stream io.ReadCloser) {
	o.done.Go(func() {
		defer stream.Close()
		_, _ = io.Copy(io.Discard, stream) // until it is closed
	})
}

func agentNode(i int) string { return fmt.Sprintf("agent-node-%d", i) }

func (o *observers) close() {
	if o.cancel != nil {
		o.cancel()
		o.done.Wait()
		o.cancel = nil
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for _, do := range o.closed {
		do()
	}
	o.closed = nil
}
