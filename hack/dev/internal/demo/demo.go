// SPDX-License-Identifier: Apache-2.0

// Package demo shows Holdfast's reason to exist: failures of pod addresses on a real control plane, each with the guard
// off and with it on. All but one are about the real whereabouts allocator, one is about a cluster network whose
// addresses come from an object that has the node's name, with simulations of both of its sides.
//
// There are two clusters, one after the other, of which the second has the guard. In each of them the scenarios play side by side,
// each in a namespace, a range and two simulated nodes of its own. Only whereabouts' reconciler looks at all of a
// cluster: the runs that need it take turns, and those that must not meet it begin when it is through.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	whereaboutsv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	holdfastv1alpha1 "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/report"
	simnode "github.com/holdfast-dev/holdfast/hack/dev/simnode/client"
)

// Cluster is what the demo needs of a development cluster.
type Cluster interface {
	// Config is the administrator's configuration, Kubeconfig the absolute path of a file with it in a folder of the
	// cluster's own.
	Config() *rest.Config
	Kubeconfig() string
	// Plugin is the path of the kubectl plugin.
	Plugin() string
	// SimNode is the control socket of the simulated nodes.
	SimNode() *simnode.Client
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
	// Scenarios are the names of those that are to be played; none is all.
	Scenarios []string
	// Evidence is what the guard accepts as proof that a sandbox is gone. It is for the report; Start has to configure it.
	Evidence configv1alpha1.Evidence
	// Start brings up a cluster of this name with these simulated nodes, all Ready but those that need a CNS, and without
	// the guard.
	Start func(ctx context.Context, name string, nodes, cnsNodes []string) (Cluster, error)
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

// scenarios in the order of the report.
func scenarios() []scenario {
	return []scenario{
		pendingPod(), frozenNode(), lostDEL(), replacedNode(),
		namedReservation(), secondRange(), evictedPod(), goneNode(),
		rebootedNode(), outlivedNode(), handedOnSlice(), completedJob(),
		strippedBefore(), strippedAfter(), forgedReport(),
	}
}

// List shows the names and titles of all scenarios, in the order of the report.
func List() string {
	var b strings.Builder
	for _, s := range scenarios() {
		fmt.Fprintf(&b, "%-38s %s\n", s.name, s.title)
	}
	return b.String()
}

// placed is a scenario with its place among all of them, which gives it its nodes and addresses.
type placed struct {
	scenario
	index int
}

// choose returns the scenarios of these names, in the order of the report; all where there are none.
func choose(names []string) ([]placed, error) {
	var chosen []placed
	unknown := slices.Clone(names)
	for i, s := range scenarios() {
		if len(names) == 0 || slices.Contains(names, s.name) {
			chosen = append(chosen, placed{s, i})
			unknown = slices.DeleteFunc(unknown, func(name string) bool { return name == s.name })
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("no scenario %q; there are:\n%s", unknown[0], List())
	}
	return chosen, nil
}

// setting describes what was real in the demo.
var setting = []string{
	"Two clusters, one after the other, the second with the guard. Real: etcd, kube-apiserver, kube-controller-manager and kube-scheduler v1.37.1; the allocator, the " +
		"reconciler and the node-slice controller of whereabouts v0.9.4.",
	"Simulated: the nodes. A program plays kubelet, runtime and CNI for the pods that are bound to them; no packet flows.",
	"Simulated too, in node-replaced-under-its-name: both sides of Azure's NodeNetworkConfig. DNC, the network controller, gives each node a prefix of the overlay; " +
		"CNS, on the node, hands out its addresses. A leak there is a prefix that DNC keeps for a Node that is gone.",
	"Made to happen, by admission policies: the API server puts off the garbage collector's deletions of NodeNetworkConfigs for some seconds, as one that is " +
		"overloaded would; and it refuses whereabouts' writes of one pool during one CNI ADD, as a missing right or another webhook does.",
	"The node-slice controller sees only the two nodes of its scenario.",
	"Shorter than usual: a node that does not respond is NotReady after 5 seconds, whereabouts gives up a CNI DEL after 3 seconds instead of a minute. The guard gives " +
		"the addresses of a pod that ended by itself back after 2 seconds instead of three minutes, suspects a sandbox 2 seconds after its pod's grace period instead " +
		"of half a minute, and one that no list ever showed has to be absent for 5 seconds instead of ten minutes; agents look every second instead of every ten. PodGC " +
		"has its usual pace, and a deleted Node counts as evidence after the usual five minutes.",
}

// guardIs describes the guard's evidence.
var guardIs = map[configv1alpha1.Evidence]string{
	configv1alpha1.EvidenceAgent:   "evidence Agent: Holdfast's agent runs on every simulated node and asks its CRI socket",
	configv1alpha1.EvidenceKubelet: "evidence Kubelet: there is no agent, only the kubelets' reports",
}

// demo is one run of everything.
type demo struct {
	Options
	scenarios []placed
	scheme    *runtime.Scheme
	started   time.Time
	mutex     sync.Mutex // of Progress
}

// Run plays the scenarios and writes the table and both reports. The error names which scenario did not come out as
// it has to, or what went wrong; nothing that was started runs when it returns.
func Run(ctx context.Context, o Options) error {
	d, err := newDemo(o)
	if err != nil {
		return err
	}
	// A report of an earlier demo must not be taken for one of this.
	for _, name := range []string{jsonName, htmlName} {
		if err := os.Remove(filepath.Join(o.OutputDir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("demo: %w", err)
		}
	}
	result := report.Report{Setting: append(slices.Clone(setting), "The guard's "+guardIs[o.Evidence]+".")}
	for _, s := range d.scenarios {
		result.Scenarios = append(result.Scenarios, report.Scenario{Name: s.name, Title: s.title, Harm: s.harm, Guard: s.guard})
	}
	playErr := d.playSides(ctx, result.Scenarios)
	if ctx.Err() != nil {
		return errors.Join(fmt.Errorf("demo: %w", context.Cause(ctx)), playErr)
	}
	if err := d.write(result); err != nil {
		return errors.Join(err, playErr)
	}
	fmt.Fprintf(d.Table, "Guard: %s\n\n%s", guardIs[o.Evidence], result.Table())
	if err := errors.Join(playErr, result.Verdict()); err != nil {
		return fmt.Errorf("the demo did not come out as it has to:\n%w", err)
	}
	return nil
}

func newDemo(o Options) (*demo, error) {
	d := &demo{Options: o, started: time.Now(), scheme: runtime.NewScheme()}
	var err error
	if d.scenarios, err = choose(o.Scenarios); err != nil {
		return nil, err
	}
	return d, errors.Join(clientgoscheme.AddToScheme(d.scheme), nadv1.AddToScheme(d.scheme),
		whereaboutsv1alpha1.AddToScheme(d.scheme), holdfastv1alpha1.AddToScheme(d.scheme))
}

// playSides plays everything without the guard and then with it, and puts what came of it into results. Two cores are too few for both
// at once: observers would miss seconds, and their counts would mean nothing.
func (d *demo) playSides(ctx context.Context, results []report.Scenario) error {
	var errs []error
	for _, guard := range []bool{false, true} {
		s := &side{demo: d, guard: guard}
		errs = append(errs, s.run(ctx, results))
		if !s.played {
			break
		}
	}
	return errors.Join(errs...)
}

// print shows progress.
func (d *demo) print(format string, args ...any) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	fmt.Fprintf(d.Progress, "[%5.1fs] %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, args...))
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
		d.print("wrote %s", path)
	}
	return nil
}
