// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode"
)

const (
	// poolEntries bounds a pool: etcd refuses an object of more than 1.5 MB.
	poolEntries = 4000
	// idleShare of a processor is what the replicas of the manager may use while nothing happens, in idleTime; idleServerShare the API server, which
	// uses 0.14 on a slow machine with 100,000 records.
	idleShare, idleServerShare = 0.1, 0.25
)

// population are running pods, each with a pool entry, a reservation and a record. The manager makes the record of the first; etcd gets copies of all for
// the others, because tens of thousands would take the API server many minutes.
type population struct {
	w *world
	// copied are the objects of the first pod, by their key in etcd.
	copied map[string]string
	first  seat
	pools  int
	// nodes are those that the pods are spread over; without any all are on the first one's.
	nodes  *registered
	spread int
}

// seat is what differs from pod to pod.
type seat struct{ name, uid, sandbox, pool, network, address, recordUID, reservationUID string }

func seatOf(pool, i int) seat {
	uid := func(kind int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", kind, pool<<16+i) }
	return seat{name: fmt.Sprintf("p-%d-%d", pool, i), uid: uid(1), sandbox: fmt.Sprintf("%032d%032d", pool, i), pool: fmt.Sprintf("10.%d.0.0-16", 16+pool),
		network: fmt.Sprintf("10.%d.0.0/16", 16+pool), address: fmt.Sprintf("10.%d.%d.%d", 16+pool, i/256, i%256), recordUID: uid(2), reservationUID: uid(3)}
}

// populate makes the first pod, on the Node that is registered.
func (w *world) populate(ctx context.Context) (*population, error) {
	if w.experiment.needs.poolsApart {
		if err := w.seed.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.poolNamespace()}}); err != nil {
			return nil, err
		}
	}
	p := &population{w: w, first: seatOf(0, 1), copied: map[string]string{}}
	if err := p.makeFirst(ctx); err != nil {
		return nil, err
	}
	if err := w.awaitIdle(ctx); err != nil { // the manager may complete the record
		return nil, err
	}
	for _, of := range []struct {
		path, key string
		uid       *string
	}{
		{"/api/v1/namespaces/" + oursNamespace + "/pods/" + p.first.name, "/registry/pods/" + oursNamespace + "/" + p.first.name, nil},
		{holdfastAPI + "ipallocations/" + p.first.uid, "/registry/holdfast.dev/ipallocations/" + p.first.uid, &p.first.recordUID},
		{"/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/" + w.poolNamespace() + "/overlappingrangeipreservations/" + p.first.address,
			"/registry/whereabouts.cni.cncf.io/overlappingrangeipreservations/" + w.poolNamespace() + "/" + p.first.address, &p.first.reservationUID},
	} {
		content, uid, err := w.raw(ctx, of.path)
		if err != nil {
			return nil, err
		}
		if p.copied[of.key] = content; of.uid != nil {
			*of.uid = uid
		}
	}
	return p, nil
}

// makeFirst makes the first pod with its entry and its reservation, and waits for its record.
func (p *population) makeFirst(ctx context.Context) error {
	pod, err := attached(p.first)
	if err != nil {
		return err
	}
	if err := p.w.seed.Create(ctx, pod); err != nil {
		return err
	}
	p.first.uid = string(pod.UID)
	if err := p.w.reserve(ctx, p.first); err != nil {
		return err
	}
	if err := p.w.createPool(ctx, 0, 1); err != nil {
		return err
	}
	return await(ctx, "a record of the first pod", func(ctx context.Context) (bool, error) {
		err := p.w.seed.Get(ctx, client.ObjectKey{Name: p.first.uid}, &v1alpha1.IPAllocation{})
		return err == nil, client.IgnoreNotFound(err)
	})
}

// poolNamespace is that of the population's pools and reservations.
func (w *world) poolNamespace() string {
	if w.experiment.needs.poolsApart {
		return "whereabouts"
	}
	return simnode.WhereaboutsNamespace
}

// populated is an object of whereabouts that belongs to the population.
func (w *world) populated(kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := whereaboutsObject(kind, name, spec)
	o.SetNamespace(w.poolNamespace())
	return o
}

// createPool makes a pool with an entry of each of its first n seats.
func (w *world) createPool(ctx context.Context, pool, n int) error {
	allocations := map[string]any{}
	for i := 1; i <= n; i++ {
		s := seatOf(pool, i)
		allocations[strconv.Itoa(i)] = map[string]any{"id": s.sandbox, "podref": oursNamespace + "/" + s.name, "ifname": "net1"}
	}
	of := seatOf(pool, 1)
	return w.seed.Create(ctx, w.populated("IPPool", of.pool, map[string]any{"range": of.network, "allocations": allocations}))
}

func (w *world) reserve(ctx context.Context, s seat) error {
	return w.seed.Create(ctx, w.populated("OverlappingRangeIPReservation", s.address,
		map[string]any{"podref": oursNamespace + "/" + s.name, "ifname": "net1", "containerid": ""}))
}

// fromServer is what the API server returns to the administrator.
func (w *world) fromServer(ctx context.Context, uri string) ([]byte, error) {
	clientset, err := kubernetes.NewForConfig(w.cluster.Config())
	if err != nil {
		return nil, err
	}
	return clientset.CoreV1().RESTClient().Get().RequestURI(uri).SetHeader("Accept", "application/json, */*").DoRaw(ctx)
}

// raw is an object as the API server returns it.
func (w *world) raw(ctx context.Context, path string) (content, uid string, err error) {
	object, err := w.fromServer(ctx, path)
	if err != nil {
		return "", "", err
	}
	var named struct {
		Metadata struct{ UID string }
	}
	err = json.Unmarshal(object, &named)
	return string(object), named.Metadata.UID, err
}

// spreadOver makes Nodes for the pods that come. They have no kubelet: the controller manager, which would end their pods, is stopped.
func (p *population) spreadOver(ctx context.Context, nodes *registered, n int) error {
	p.nodes, p.spread = nodes, n
	p.w.forget("kube-controller-manager")
	return errors.Join(p.w.cluster.ControlPlane().ControllerManager().Stop(0), p.w.eachCopy(ctx, n, nodes.copied, nodes.as, putOf))
}

// grow adds n pods, in pools of so many entries.
func (p *population) grow(ctx context.Context, n, entries int) error {
	for ; n > 0; n -= entries {
		p.pools++
		if err := p.addPool(ctx, p.pools, min(n, entries)); err != nil {
			return err
		}
	}
	return nil
}

func (p *population) addPool(ctx context.Context, pool, n int) error {
	if err := p.w.createPool(ctx, pool, n); err != nil {
		return err
	}
	return p.w.eachCopy(ctx, n, p.copied, func(i int) *strings.Replacer { return p.as(seatOf(pool, i+1), i) }, putOf)
}

// eachCopy makes an operation of etcd of each of n copies of objects, which differ by what copier replaces in keys and values. A transaction has one
// object of each resource, so that each has a version of its own: of forty with the same one, 39 never reached the manager's watch.
func (w *world) eachCopy(ctx context.Context, n int, copied map[string]string, copier func(i int) *strings.Replacer, operation func(key, value string) etcdOperation) error {
	return inParallel(ctx, clients, n, func(ctx context.Context, i int) error {
		replacer := copier(i)
		operations := make([]etcdOperation, 0, len(copied))
		for key, value := range copied {
			operations = append(operations, operation(replacer.Replace(key), replacer.Replace(value)))
		}
		return w.commit(ctx, operations)
	})
}

// as replaces what differs between the first seat and the i-th of its pool.
func (p *population) as(other seat, i int) *strings.Replacer {
	s := p.first
	var replaced []string
	if p.nodes != nil {
		replaced = p.nodes.replaced(i % p.spread)
	}
	return strings.NewReplacer(append(replaced, s.sandbox, other.sandbox, s.uid, other.uid, s.recordUID, other.recordUID, s.reservationUID, other.reservationUID,
		s.pool, other.pool, s.network, other.network, s.address, other.address, s.name, other.name)...)
}

// etcdOperation is one of etcd's JSON gateway, which takes bytes in base64.
type etcdOperation struct {
	RequestPut         *etcdObject `json:"requestPut,omitempty"`
	RequestDeleteRange *etcdObject `json:"requestDeleteRange,omitempty"`
}

type etcdObject struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
}

func putOf(key, value string) etcdOperation {
	return etcdOperation{RequestPut: &etcdObject{Key: []byte(key), Value: []byte(value)}}
}

func deletionOf(key, _ string) etcdOperation {
	return etcdOperation{RequestDeleteRange: &etcdObject{Key: []byte(key)}}
}

// httpClient keeps a connection for each of those that make copies at once.
var httpClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}

// commit makes operations in one transaction.
func (w *world) commit(ctx context.Context, operations []etcdOperation) error {
	body, err := json.Marshal(map[string]any{"success": operations})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.cluster.ControlPlane().EtcdURL()+"/v3/kv/txn", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	refusal, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("etcd refused %d operations: %s: %s", len(operations), response.Status, refusal)
	}
	return err
}

// awaitIdle waits until the replicas of the manager and the API server have nothing to do.
func (w *world) awaitIdle(ctx context.Context) error {
	used := func() (manager, server float64, err error) {
		seconds, err := cpuSeconds(w.processes())
		return seconds["manager"] + seconds[standby], seconds["kube-apiserver"], err
	}
	return await(ctx, "the manager and the API server to have nothing to do", func(ctx context.Context) (bool, error) {
		manager, server, err := used()
		if err != nil {
			return false, err
		}
		if err := pass(ctx, idleTime); err != nil {
			return false, err
		}
		managerNow, serverNow, err := used()
		return managerNow-manager < idleShare*idleTime.Seconds() && serverNow-server < idleServerShare*idleTime.Seconds(), err
	})
}
