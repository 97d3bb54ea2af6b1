// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// addresses are those of the prepared pods, in one pool.
type addresses struct {
	// manager has the account of the manager: a webhook judges the removals of all others.
	manager client.WithWatch
}

func (w *world) addresses(ctx context.Context) (*addresses, error) {
	config := rest.CopyConfig(w.cluster.Config())
	config.QPS = -1
	config.Impersonate.UserName = managerUser
	a := &addresses{}
	var err error
	if a.manager, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	return a, w.createPool(ctx, 0, 0)
}

// shown is a pod that shows its address in its network-status.
func (a *addresses) shown(i int) *corev1.Pod {
	p := onNetwork(oursNamespace, podName(i))
	p.Annotations[nadv1.NetworkStatusAnnot] = fmt.Sprintf(`[{"name":"%s/%s","interface":"net1","ips":[%q]}]`, oursNamespace, network, seatOf(0, i+1).address)
	return p
}

// add gives each pod its address, and waits for the records.
func (a *addresses) add(ctx context.Context, pods []*corev1.Pod) error {
	records, err := a.manager.Watch(ctx, &v1alpha1.IPAllocationList{})
	if err != nil {
		return err
	}
	defer records.Stop()
	entries, missing := map[string]any{}, sets.New[string]()
	for i, p := range pods {
		entries[strconv.Itoa(i+1)] = map[string]any{"id": fmt.Sprintf("%064x", p.UID)[:64], "podref": p.Namespace + "/" + p.Name, "ifname": "net1"}
		missing.Insert(string(p.UID))
	}
	if err := a.write(ctx, entries); err != nil {
		return err
	}
	for missing.Len() > 0 {
		select {
		case event, open := <-records.ResultChan():
			record, isRecord := event.Object.(*v1alpha1.IPAllocation)
			if !open || !isRecord {
				return fmt.Errorf("the watch of records ended with %v", event.Object)
			}
			if event.Type == watch.Added {
				missing.Delete(record.Name)
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for the records of %d pods: %w", missing.Len(), context.Cause(ctx))
		}
	}
	return nil
}

// del takes the addresses away.
func (a *addresses) del(ctx context.Context, pods []*corev1.Pod) error {
	entries := map[string]any{}
	for i := range pods {
		entries[strconv.Itoa(i+1)] = nil
	}
	return a.write(ctx, entries)
}

func (a *addresses) write(ctx context.Context, entries map[string]any) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"allocations": entries}})
	if err != nil {
		return err
	}
	return a.manager.Patch(ctx, whereaboutsObject("IPPool", seatOf(0, 1).pool, nil), client.RawPatch(types.MergePatchType, patch))
}
