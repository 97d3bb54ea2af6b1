// SPDX-License-Identifier: Apache-2.0

package queries

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/internal/facts"
)

// guarded is a GuardedNode with a query about each record, and no response.
func guarded(uid string, records ...string) *v1alpha1.GuardedNode {
	object := &v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: uid}}
	for _, record := range records {
		object.Spec.Queries = append(object.Spec.Queries, v1alpha1.SandboxQuery{Record: record, SandboxID: "a", Epoch: 1})
	}
	return object
}

func reader(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	for _, i := range index.All {
		if _, is := i.Object.(*v1alpha1.GuardedNode); is {
			b.WithIndex(i.Object, i.Field, i.Keys)
		}
	}
	return b.Build()
}

func names(q facts.Queries) []string {
	var names []string
	for i := range q.Objects {
		names = append(names, q.Objects[i].Name)
	}
	return names
}

func TestTheCacheFindsTheQueriesAboutARecordInAllGuardedNodes(t *testing.T) {
	responded := guarded("responded")
	responded.Status.Responses = []v1alpha1.SandboxResponse{{Record: record, SandboxID: "a"}}
	cached := reader(t, guarded("node-1", record, "another"), guarded("node-0", record), guarded("node-2", "another"), responded)
	w := NewWanted()
	w.Make(&facts.Queries{Record: record}, "node-3", queryAbout("b"))
	w.Make(&facts.Queries{Record: "another"}, "node-3", queryAbout("c"))
	got, err := w.Cached(t.Context(), cached, record)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"node-0", "node-1", "responded"}, names(got)); diff != "" {
		t.Errorf("GuardedNodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[facts.QueryKey]bool{{NodeUID: "node-3", SandboxID: "b"}: true}, got.Pending); diff != "" || got.Record != record || got.Unread != "" {
		t.Errorf("queries %+v, pending (-want +got):\n%s", got, diff)
	}
}

func TestR11ALiveReadIsNotFromTheCache(t *testing.T) {
	for name, tc := range map[string]struct {
		cached, live []client.Object
		nodes        []types.UID
		want         []string
	}{
		"of the machines, which the cache lacks":           {nil, []client.Object{guarded("node-1", record)}, []types.UID{"node-1"}, []string{"node-1"}},
		"of those that the cache has":                      {[]client.Object{guarded("node-0", record)}, []client.Object{guarded("node-0", record)}, nil, []string{"node-0"}},
		"of both, each once":                               {[]client.Object{guarded("node-0", record), guarded("node-1", record)}, []client.Object{guarded("node-0", record), guarded("node-1")}, []types.UID{"node-1", "node-1"}, []string{"node-0", "node-1"}},
		"of one that is gone by now, which is no object":   {[]client.Object{guarded("node-0", record)}, nil, []types.UID{"node-1"}, nil},
		"of none where no machine and no query are known":  {nil, []client.Object{guarded("node-1", record)}, nil, nil},
		"of none that has queries about other records":     {[]client.Object{guarded("node-2", "another")}, []client.Object{guarded("node-2", "another")}, nil, nil},
		"of a machine that has queries about another only": {nil, []client.Object{guarded("node-1", "another")}, []types.UID{"node-1"}, []string{"node-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := NewWanted().Live(t.Context(), reader(t, tc.cached...), reader(t, tc.live...), record, tc.nodes)
			if err != nil || got.Unread != "" {
				t.Fatalf("%v, unread %q", err, got.Unread)
			}
			if diff := cmp.Diff(tc.want, names(got)); diff != "" {
				t.Errorf("GuardedNodes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestR11TheContentIsTheAPIServers, and not of the cache.
func TestR11TheContentIsTheAPIServers(t *testing.T) {
	live := guarded("node-1", record)
	live.Spec.Queries[0].Epoch = 7
	got, err := NewWanted().Live(t.Context(), reader(t, guarded("node-1", record)), reader(t, live), record, nil)
	if err != nil || got.Epoch("node-1", "a") != 7 {
		t.Errorf("epoch %d, %v; expected the one of the API server", got.Epoch("node-1", "a"), err)
	}
}

func TestAGuardedNodeThatCannotBeReadMakesAllUnread(t *testing.T) {
	live := interceptor.NewClient(reader(t, guarded("node-1", record), guarded("node-2", record)), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if key.Name == "node-1" {
				return errors.New("the API server is away")
			}
			return c.Get(ctx, key, into, opts...)
		}})
	got, err := NewWanted().Live(t.Context(), reader(t), live, record, []types.UID{"node-1", "node-2"})
	if err != nil || !strings.Contains(got.Unread, "node-1") || !strings.Contains(got.Unread, "the API server is away") {
		t.Errorf("unread %q, %v", got.Unread, err)
	}
	if e := got.About("a", "node-2"); !e.Query.IsUnknown() || !e.Response.IsUnknown() {
		t.Errorf("%+v is known, though the other GuardedNode may have a report that holds the address", e)
	}
}

func TestACacheThatCannotBeReadIsAnError(t *testing.T) {
	cached := interceptor.NewClient(reader(t), interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("no cache")
	}})
	for name, read := range map[string]func() error{
		"cached": func() error { _, err := NewWanted().Cached(t.Context(), cached, record); return err },
		"live":   func() error { _, err := NewWanted().Live(t.Context(), cached, reader(t), record, nil); return err },
	} {
		if err := read(); err == nil || !strings.Contains(err.Error(), record) {
			t.Errorf("%s: %v; expected an error that names the record", name, err)
		}
	}
}
