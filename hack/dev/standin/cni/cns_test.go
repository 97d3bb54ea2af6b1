// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/acn"
)

// nodeConfig is node-a's, of a Node with this UID, with one prefix.
func nodeConfig(t *testing.T, owner types.UID, prefix string) *unstructured.Unstructured {
	t.Helper()
	o := acn.New(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: owner}})
	if _, err := acn.SetContainer(o, acn.Container{ID: prefix, Prefix: netip.MustParsePrefix(prefix)}); err != nil {
		t.Fatal(err)
	}
	return o
}

func reader(objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(objects...).Build()
}

func TestCNSLoadsByNameAlone(t *testing.T) {
	deleting := nodeConfig(t, "a-dead-node", "10.0.0.0/28")
	deleting.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	for name, object := range map[string]*unstructured.Unstructured{
		"an object of whatever Node":      nodeConfig(t, "a-dead-node", "10.0.0.0/28"),
		"an object that is being deleted": deleting,
	} {
		t.Run(name, func(t *testing.T) {
			cns := NewCNS("node-a")
			if err := cns.Ready(); !errors.Is(err, errNoCNS) {
				t.Errorf("before anything is loaded: error %v", err)
			}
			if _, err := cns.Add("s"); !errors.Is(err, errNoCNS) {
				t.Errorf("ADD before anything is loaded: error %v", err)
			}
			news, err := cns.load(t.Context(), reader(object))
			if err != nil || !strings.Contains(news, "10.0.0.0/28") || !strings.Contains(news, "a-dead-node") {
				t.Errorf("news %q, error %v", news, err)
			}
			if ip, err := cns.Add("s"); err != nil || ip != "10.0.0.2" {
				t.Errorf("ADD: %s, error %v", ip, err)
			}
		})
	}
}

func TestCNSKeepsWhatItLoaded(t *testing.T) {
	cns := NewCNS("node-a")
	var news []string
	for _, r := range []client.WithWatch{
		reader(), reader(nodeConfig(t, "uid-1", "10.0.0.0/30")), reader(nodeConfig(t, "uid-1", "10.0.0.0/30")), reader(),
		reader(nodeConfig(t, "uid-2", "10.0.0.16/30")),
	} {
		line, err := cns.load(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		news = append(news, line)
	}
	want := []string{
		"", "CNS loads [10.0.0.0/30] from the NodeNetworkConfig of Node UID uid-1", "", "",
		"CNS loads [10.0.0.16/30] from the NodeNetworkConfig of Node UID uid-2",
	}
	if diff := cmp.Diff(want, news); diff != "" {
		t.Errorf("news (-want +got):\n%s", diff)
	}
	var got []string
	for _, sandbox := range []string{"a", "b"} {
		ip, err := cns.Add(sandbox)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ip)
	}
	if _, err := cns.Add("c"); err == nil {
		t.Error("two full prefixes gave out an address")
	}
	cns.Del("a")
	ip, err := cns.Add("c")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"10.0.0.2", "10.0.0.18", "10.0.0.2"}, append(got, ip)); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

func TestCNSTellsOnceWhatItLacks(t *testing.T) {
	broken := nodeConfig(t, "uid-1", "10.0.0.0/28")
	broken.Object["status"] = map[string]any{"networkContainers": []any{map[string]any{"primaryIP": "none"}}}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var told []string
		ended := make(chan struct{})
		go func() {
			NewCNS("node-a").Run(ctx, reader(broken), func(news string) { told = append(told, news) })
			close(ended)
		}()
		<-time.After(time.Minute)
		cancel()
		<-ended
		if len(told) != 1 || !strings.Contains(told[0], "primaryIP") {
			t.Errorf("told %q", told)
		}
	})
}

func TestPluginsUseTheCNSWhereThereIsOne(t *testing.T) {
	o := newPlugins(t, newPod(nil)).options
	o.CNS = NewCNS("node-a")
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ready(); !errors.Is(err, errNoCNS) {
		t.Errorf("error %v", err)
	}
	if err := newPlugins(t, newPod(nil)).Ready(); err != nil {
		t.Errorf("a range of its own is not ready: %v", err)
	}
}
