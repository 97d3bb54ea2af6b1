// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/observer"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/demo/report"
)

// side is the half of the demo that plays without the guard, or with it, on a cluster of its own.
type side struct {
	*demo
	guard    bool
	cluster  Cluster
	client   client.Client
	observer *observer.Observer
	// played is true after the scenarios ran, with any result.
	played bool
}

// state names the guard's state as the report does.
func (s *side) state() string {
	if s.guard {
		return "on"
	}
	return "off"
}

// agents reports whether the nodes run Holdfast's agent; without the guard it means nothing.
func (s *side) agents() bool { return s.Evidence == configv1alpha1.EvidenceAgent }

// run starts the side's cluster, plays the scenarios on it, puts what came of them into results, and ends all of it.
func (s *side) run(ctx context.Context, results []report.Scenario) (err error) {
	s.print("guard %s: starting a control plane and %d simulated nodes", s.state(), len(s.nodes()))
	if s.cluster, err = s.Start(ctx, "guard-"+s.state(), s.nodes(), s.cnsNodes()); err != nil {
		return fmt.Errorf("demo: starting the cluster: %w", err)
	}
	defer func() {
		s.print("guard %s: stopping everything that was started", s.state())
		err = errors.Join(err, s.cluster.Stop())
	}()
	if s.client, err = s.newClient(); err != nil {
		return err
	}
	if s.guard {
		s.print("guard on: installing the guard")
		if err := s.cluster.InstallGuard(ctx); err != nil {
			return fmt.Errorf("installing the guard: %w", err)
		}
	}
	reader, err := s.newClient() // the observer's own
	if err != nil {
		return err
	}
	s.observer = observer.Start(s.cluster.SimNode(), reader)
	defer s.observer.Stop()
	s.played = true
	return s.play(ctx, results)
}

// newClient is one without a limit of its own: all runs share it.
func (s *side) newClient() (client.Client, error) {
	config := s.cluster.Config()
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: s.scheme})
	if err != nil {
		return nil, fmt.Errorf("demo: client: %w", err)
	}
	return c, nil
}

// atOnce bounds how many scenarios that wait for no turn play at the same time.
const atOnce = 6

// play plays scenarios side by side, as far as the reconciler's turns and atOnce allow.
func (s *side) play(ctx context.Context, results []report.Scenario) error {
	turns := newTurns(s.scenarios)
	var group sync.WaitGroup
	places := make(chan struct{}, atOnce)
	errs := make([]error, len(s.scenarios))
	for i, scenario := range s.scenarios {
		stage := s.stage(scenario)
		stage.turn = turns.of(scenario.scenario)
		group.Go(func() {
			defer stage.turn.pass()
			if scenario.reconciles == 0 && !scenario.early {
				turns.awaitAll()
				places <- struct{}{}
				defer func() { <-places }()
			}
			run, err := stage.run(ctx)
			errs[i] = err
			if s.guard {
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
func (s *side) stage(p placed) *stage {
	return &stage{
		side: s, scenario: p.scenario, namespace: fmt.Sprintf("%s-guard-%s", p.name, s.state()), pool: p.pool(s.guard), first: p.node(1), second: p.node(2),
	}
}

// pool is a range of two addresses, or as wide as the scenario needs it; another one for each run.
func (p placed) pool(guard bool) netip.Prefix {
	third := byte(2 * p.index)
	if guard {
		third++
	}
	bits := 30
	switch {
	case p.overlay:
		bits = nodePrefixBits - 1
	case p.bits != 0:
		bits = p.bits
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 80, third, 0}), bits)
}

// node is the name of one of the scenario's nodes.
func (p placed) node(number int) string { return fmt.Sprintf("node-%c%d", 'a'+rune(p.index), number) }

// nodes are those of all runs: a machine that a run has powered off is of no use to another one.
func (d *demo) nodes() []string { return d.nodesOf(func(scenario) bool { return true }) }

// cnsNodes are those of nodes that need a CNS.
func (d *demo) cnsNodes() []string { return d.nodesOf(func(s scenario) bool { return s.overlay }) }

func (d *demo) nodesOf(wanted func(scenario) bool) []string {
	var names []string
	for _, p := range d.scenarios {
		if wanted(p.scenario) {
			names = append(names, p.node(1), p.node(2))
		}
	}
	return names
}
