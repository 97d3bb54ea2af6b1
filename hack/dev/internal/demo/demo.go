// SPDX-License-Identifier: Apache-2.0

// Package demo shows Holdfast's reason to exist: four failures of pod addresses on a real control plane, each first with
// the guard off and then with it on. Three are about the real whereabouts allocator, one about a cluster network whose
// addresses come from an object that has the node's name, with stand-ins for both of its sides.
//
// The runs of one guard state play at the same time, each in a namespace, a pool and two stand-in nodes of its own.
// Only whereabouts' reconciler looks at all of the cluster: the runs that must not meet it begin when it is through.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	whereaboutsv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	holdfastv1alpha1 "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/observer"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/report"
	standin "github.com/holdfast-dev/holdfast/hack/dev/standin/client"
)

// Cluster is what the demo needs of a development cluster.
type Cluster interface {
	// Config is the administrator's configuration.
	Config() *rest.Config
	// StandIn is the control socket of the stand-in nodes.
	StandIn() *standin.Client
	// InstallGuard brings up the guard with refusals of unsafe releases, and returns when it is ready.
	InstallGuard(context.Context) error
	NodeResourceGuard
	// Reconcile runs whereabouts' reconciler once, under the token of its own Deployment's pod.
	Reconcile(context.Context) error
	// Stop ends everything.
	Stop() error
}

// NodeResourceGuard is what the guard has for node-scoped resources, as it is installed: both are the samples.
type NodeResourceGuard interface {
	// GuardNodeResource applies the policy for a resource, with stale objects to be deleted, and returns when it is
	// enforced.
	GuardNodeResource(ctx context.Context, plural string) error
	// AddWait gives the DaemonSet of a CNI agent the init container that waits for the object of its node.
	AddWait(context.Context, *appsv1.DaemonSet) error
}

// Options of the demo.
type Options struct {
	// Start brings up a cluster with these stand-in nodes, all Ready but those that need a CNS, and without the guard.
	Start func(ctx context.Context, nodes, cnsNodes []string) (Cluster, error)
	// OutputDir gets report.json and report.html.
	OutputDir string
	// Table gets the table of results, Progress everything that happens meanwhile.
	Table, Progress io.Writer
}

// The names of the reports in Options.OutputDir.
const (
	jsonName = "report.json"
	htmlName = "report.html"
)

// scenarios in the order of the report. The first one is the one that runs whereabouts' reconciler.
func scenarios() []scenario {
	return []scenario{pendingPod(), frozenNode(), lostDEL(), replacedNode()}
}

// setting tells what was real in the demo.
var setting = []string{
	"Real: etcd, kube-apiserver, kube-controller-manager and kube-scheduler v1.37.1; the allocator and the reconciler of whereabouts v0.9.4.",
	"Stand-ins: the nodes. A program plays kubelet, runtime and CNI for the pods that are bound to them; no packet flows.",
	"Stand-ins too, in the last scenario: both sides of Azure's NodeNetworkConfig. DNC, the network controller, gives each node a prefix of the overlay; " +
		"CNS, on the node, hands out its addresses. A leak there is a prefix that DNC's books keep for a Node that is gone.",
	"Made to happen: the API server puts off the garbage collector's deletions of NodeNetworkConfigs for some seconds, by an admission policy, as one that is " +
		"overloaded would.",
	"Shorter than usual: a silent node is found NotReady after 5 seconds, and whereabouts gives up a CNI DEL after 3 seconds instead of a minute.",
}

// Run plays every scenario and writes the table and both reports. The error says which scenario did not come out as
// it has to, or what went wrong; nothing that was started runs when it returns.
func Run(ctx context.Context, o Options) (err error) {
	d := &demo{Options: o, started: time.Now(), scheme: runtime.NewScheme()}
	if err := d.addSchemes(); err != nil {
		return err
	}
	// A report of an earlier demo must not be taken for one of this.
	for _, name := range []string{jsonName, htmlName} {
		if err := os.Remove(filepath.Join(o.OutputDir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("demo: %w", err)
		}
	}
	d.say("starting the control plane and the stand-in nodes")
	if d.cluster, err = o.Start(ctx, d.nodes(), d.cnsNodes()); err != nil {
		return fmt.Errorf("demo: starting the cluster: %w", err)
	}
	defer func() {
		d.say("stopping everything that was started")
		err = errors.Join(err, d.cluster.Stop())
	}()
	if d.client, err = client.New(d.cluster.Config(), client.Options{Scheme: d.scheme}); err != nil {
		return fmt.Errorf("demo: client: %w", err)
	}
	return d.play(ctx)
}

// demo is one run of everything.
type demo struct {
	Options
	scheme   *runtime.Scheme
	cluster  Cluster
	client   client.Client
	observer *observer.Observer

	started time.Time
	mutex   sync.Mutex // of Progress
}

func (d *demo) addSchemes() error {
	return errors.Join(clientgoscheme.AddToScheme(d.scheme), nadv1.AddToScheme(d.scheme),
		whereaboutsv1alpha1.AddToScheme(d.scheme), holdfastv1alpha1.AddToScheme(d.scheme))
}

// say shows progress.
func (d *demo) say(format string, args ...any) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	fmt.Fprintf(d.Progress, "[%5.1fs] %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, args...))
}

// play runs both phases with an observer over all of it, and reports.
func (d *demo) play(ctx context.Context) error {
	reader, err := client.New(d.cluster.Config(), client.Options{Scheme: d.scheme})
	if err != nil {
		return fmt.Errorf("demo: the observer's client: %w", err)
	}
	d.observer = observer.Start(d.cluster.StandIn(), reader)
	defer d.observer.Stop()

	result := report.Report{Setting: setting}
	for _, s := range scenarios() {
		result.Scenarios = append(result.Scenarios, report.Scenario{Name: s.name, Title: s.title, Harm: s.harm, Guard: s.guard})
	}
	errOff := d.phase(ctx, false, result.Scenarios)
	var errOn error
	if ctx.Err() == nil {
		errOn = d.guarded(ctx, result.Scenarios)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("demo: %w", context.Cause(ctx))
	}
	if err := d.write(result); err != nil {
		return err
	}
	fmt.Fprint(d.Table, result.Table())
	if err := errors.Join(errOff, errOn, result.Verdict()); err != nil {
		return fmt.Errorf("the demo did not come out as it has to:\n%w", err)
	}
	return nil
}

// guarded clears what the first phase left, installs the guard and plays the second one.
func (d *demo) guarded(ctx context.Context, results []report.Scenario) error {
	if err := d.clear(ctx); err != nil {
		return fmt.Errorf("clearing up after the runs without the guard: %w", err)
	}
	d.say("installing the guard")
	if err := d.cluster.InstallGuard(ctx); err != nil {
		return fmt.Errorf("installing the guard: %w", err)
	}
	return d.phase(ctx, true, results)
}

// phase plays all scenarios in one state of the guard and puts what came of them into results.
func (d *demo) phase(ctx context.Context, guard bool, results []report.Scenario) error {
	reconciled := make(chan struct{})
	release := sync.OnceFunc(func() { close(reconciled) })
	var group sync.WaitGroup
	errs := make([]error, len(results))
	for i, scenario := range scenarios() {
		stage := d.stage(i, scenario, guard)
		stage.reconciled = release
		group.Go(func() {
			defer release()
			if i > 0 {
				<-reconciled
			}
			run, err := stage.run(ctx)
			errs[i] = err
			if guard {
				results[i].On = run
			} else {
				results[i].Off = run
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// stage is the place of one run.
func (d *demo) stage(index int, scenario scenario, guard bool) *stage {
	s := &stage{
		scenario: scenario, guard: guard, cluster: d.client, machines: d.cluster.StandIn(),
		observer: d.observer, reconcile: d.cluster.Reconcile, say: d.say,
		config: d.cluster.Config(), guards: d.cluster, pool: scenario.pool(index, guard),
	}
	s.namespace = fmt.Sprintf("%s-guard-%s", scenario.name, s.state())
	s.first, s.second = nodeName(index, guard, 1), nodeName(index, guard, 2)
	return s
}

// pool is a range of two addresses, or of two nodes' prefixes; another one for each run.
func (s scenario) pool(index int, guard bool) netip.Prefix {
	third := byte(2 * index)
	if guard {
		third++
	}
	bits := 30
	if s.overlay {
		bits = nodePrefixBits - 1
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 80, third, 0}), bits)
}

func nodeName(index int, guard bool, number int) string {
	letter := 'a' + rune(2*index)
	if guard {
		letter++
	}
	return fmt.Sprintf("node-%c%d", letter, number)
}

// nodes are those of all runs: a machine that a run has powered off is of no use to the next one.
func (d *demo) nodes() []string { return nodesOf(func(scenario) bool { return true }) }

// cnsNodes are those of nodes that need a CNS.
func (d *demo) cnsNodes() []string { return nodesOf(func(s scenario) bool { return s.overlay }) }

func nodesOf(wanted func(scenario) bool) []string {
	var names []string
	for i, scenario := range scenarios() {
		if !wanted(scenario) {
			continue
		}
		for _, guard := range []bool{false, true} {
			names = append(names, nodeName(i, guard, 1), nodeName(i, guard, 2))
		}
	}
	return names
}

func (d *demo) write(result report.Report) error {
	if err := os.MkdirAll(d.OutputDir, 0o755); err != nil {
		return fmt.Errorf("demo: folder of the reports: %w", err)
	}
	jsonFile, err := result.JSON()
	if err != nil {
		return err
	}
	htmlFile, err := result.HTML()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{jsonName: jsonFile, htmlName: htmlFile} {
		path := filepath.Join(d.OutputDir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		d.say("wrote %s", path)
	}
	return nil
}
