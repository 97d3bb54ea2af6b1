// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// oneAddress is that of one pod at a time.
type oneAddress struct {
	// manager has the account of the manager: a webhook judges the removals of all others.
	manager client.WithWatch
	seat    seat
}

func (w *world) address(ctx context.Context) (*oneAddress, error) {
	config := rest.CopyConfig(w.cluster.Config())
	config.QPS = -1
	config.Impersonate.UserName = managerUser
	a := &oneAddress{seat: seatOf(0, 1)}
	var err error
	if a.manager, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	return a, w.seed.Create(ctx, whereaboutsObject("IPPool", a.seat.pool, map[string]any{"range": a.seat.network, "allocations": map[string]any{}}))
}

// shown is a pod whose network-status shows the address.
func (a *oneAddress) shown(namespace, name string) *corev1.Pod {
	p := onNetwork(namespace, name)
	p.Annotations[nadv1.NetworkStatusAnnot] = fmt.Sprintf(`[{"name":"%s/%s","interface":"net1","ips":[%q]}]`, namespace, network, a.seat.address)
	return p
}

// add gives the address to a pod, and waits for the record.
func (a *oneAddress) add(ctx context.Context, p *corev1.Pod) error {
	records, err := a.manager.Watch(ctx, &v1alpha1.IPAllocationList{}, client.MatchingFields{"metadata.name": string(p.UID)})
	if err != nil {
		return err
	}
	defer records.Stop()
	entry := map[string]any{"id": fmt.Sprintf("%064x", p.UID)[:64], "podref": p.Namespace + "/" + p.Name, "ifname": "net1"}
	if err := a.write(ctx, entry); err != nil {
		return err
	}
	for {
		select {
		case event, open := <-records.ResultChan():
			if !open {
				return fmt.Errorf("the watch of the record of pod %s ended", p.Name)
			}
			if event.Type == watch.Added {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for the record of pod %s: %w", p.Name, context.Cause(ctx))
		}
	}
}

// del takes the address away.
func (a *oneAddress) del(ctx context.Context) error { return a.write(ctx, nil) }

func (a *oneAddress) write(ctx context.Context, entry any) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"allocations": map[string]any{"1": entry}}})
	if err != nil {
		return err
	}
	return a.manager.Patch(ctx, whereaboutsObject("IPPool", a.seat.pool, nil), client.RawPatch(types.MergePatchType, patch))
}
