// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/result"
)

// agentsRestart ends the watches of all agents and has each make the calls of its start, all at the same time.
var agentsRestart = experiment{
	repeats: 3,
	cold:    true,
	rows: []row{{
		Row: page.Row{Name: "agents-restart", Title: fmt.Sprintf("restart of all %d agents", watchingAgents), Unit: "seconds", Target: result.Target{Op: result.AtMost, Value: 120},
			Limit: "Priority and fairness lets through what its level for ordinary accounts has seats for."},
		figure: func(turns map[string]result.Turn) float64 { return turns["agents"].WallSeconds },
	}},
	prepare: func(ctx context.Context, w *world) ([]arm, error) {
		config, err := w.accountOf(ctx, "holdfast-agent", "holdfast-agent")
		if err != nil {
			return nil, err
		}
		inNodes, err := w.hasQueriesInNodes()
		if err != nil {
			return nil, err
		}
		o := &observers{config: config, watches: w.agentWatches(inNodes)}
		w.onStop(func() error { o.close(); return nil })
		n := w.size(watchingAgents, watchingAgents/50)
		return []arm{{
			name:   "agents",
			before: func(context.Context) error { o.close(); return nil },
			run:    func(ctx context.Context) (int, map[string]float64, error) { return n, nil, o.restart(ctx, n) },
		}}, nil
	},
}

// agent is a client with a connection of its own, as each process has. A client of all would dial for each call that comes while its connections are full.
func (o *observers) agent() (kubernetes.Interface, error) {
	config := rest.CopyConfig(o.config)
	config.Dial = (&net.Dialer{}).DialContext // clients with the same one share their connections
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	o.onClose(func() { utilnet.CloseIdleConnectionsFor(connection.Transport) })
	return kubernetes.NewForConfigAndClient(config, connection)
}

// restart returns when each agent knows for which Node it speaks and has the first state of what it watches.
func (o *observers) restart(ctx context.Context, n int) error {
	watching := o.begin(ctx)
	return inParallel(ctx, n, n, func(ctx context.Context, i int) error {
		clientset, err := o.agent()
		if err != nil {
			return err
		}
		_, err = clientset.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("asking for its identity: %w", err)
		}
		if _, err := clientset.CoreV1().Nodes().Get(ctx, simulatedNode, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("reading its Node: %w", err)
		}
		for _, of := range o.watches {
			stream, err := of.open(watching, clientset, agentNode(i), map[string]string{"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"})
			if err != nil {
				return fmt.Errorf("watching %s: %w", of.kind, err)
			}
			reader := bufio.NewReader(stream)
			if _, err := reader.ReadString('\n'); err != nil { // the bookmark at the end of the first state, which is empty
				return fmt.Errorf("the first state of %s: %w", of.kind, err)
			}
			o.drain(stream)
		}
		return nil
	})
}
