// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"errors"
	"net/http"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

// connected is what a cache needs of a manager.
type connected struct {
	manager.Manager
	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	mapper meta.RESTMapper
}

func (c connected) GetConfig() *rest.Config        { return c.config }
func (c connected) GetHTTPClient() *http.Client    { return c.http }
func (c connected) GetScheme() *runtime.Scheme     { return c.scheme }
func (c connected) GetRESTMapper() meta.RESTMapper { return c.mapper }

// serve is a manager of an API server with these objects.
func serve(t *testing.T, objects ...client.Object) connected {
	t.Helper()
	pools, err := apiserver.Custom(&apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: wb.SchemeGroupVersion.Group, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "ippools", Kind: "IPPool"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: wb.SchemeGroupVersion.Version, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}}}}}})
	scheme := runtime.NewScheme()
	if err := errors.Join(err, corev1.AddToScheme(scheme), AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	server := apiserver.New(apiserver.Options{}, append(apiserver.Natives(), pools)...)
	transport := server.Client(apiserver.Identity{Client: "manager"})
	inJSON := rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON}
	mgr := connected{config: &rest.Config{Host: "http://memory", Transport: transport, QPS: -1, ContentConfig: inJSON}, http: &http.Client{Transport: transport}, scheme: scheme, mapper: server.Mapper()}
	writer, err := client.New(mgr.config, client.Options{Scheme: scheme, Mapper: mgr.mapper})
	for i := 0; err == nil && i < len(objects); i++ {
		err = writer.Create(t.Context(), objects[i])
	}
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// TestTheCacheNamesThePoolsOfANamespace has the same pools in each of three namespaces, one of which is not watched.
func TestTheCacheNamesThePoolsOfANamespace(t *testing.T) {
	var objects []client.Object
	for _, namespace := range []string{"one", "two", "three"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		for name, network := range map[string]string{"holds": "10.0.0.0/24", "does-not": "10.0.1.0/24", "unreadable": "?"} {
			pool := newPool(name, network, "", nil)
			pool.Namespace = namespace
			objects = append(objects, pool)
		}
	}
	mgr := serve(t, objects...)
	b := New(Options{Namespaces: []string{"one", "two"}})
	address := []netip.Addr{netip.MustParseAddr("10.0.0.7")}
	pools, err := b.newCache(mgr)
	if err == nil {
		err = b.watchPools(t.Context(), pools)
	}
	if err != nil {
		t.Fatal(err)
	}
	early := New(Options{})
	early.poolStores = storeOf(newPool("holds", "10.0.0.0/24", "5", nil))
	if around := early.covering("kube-system", address); around != nil {
		t.Errorf("named before the first list is complete: %v", around)
	}
	go func() { _ = pools.Start(t.Context()) }()
	if !toolscache.WaitForCacheSync(t.Context().Done(), b.HasSynced) {
		t.Fatal("the cache did not sync")
	}
	for namespace, want := range map[string]map[string]bool{"one": {"one/holds": true, "one/unreadable": true}, "two": {"two/holds": true, "two/unreadable": true}, "three": {}} {
		got := map[string]bool{}
		for _, pool := range b.covering(namespace, address) {
			got[pool.Namespace+"/"+pool.Name] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("around an address of namespace %s (-want +got):\n%s", namespace, diff)
		}
	}
}

// BenchmarkCovering finds one pool of 5,000.
func BenchmarkCovering(b *testing.B) {
	backend := New(Options{})
	backend.synced.Store(new(toolscache.InformerSynced(func() bool { return true })))
	var pools []*wb.IPPool
	for i := range 5000 {
		network := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
		pools = append(pools, newPool(network.Addr().String()+"-24", network.String(), "5", nil))
	}
	backend.poolStores = storeOf(pools...)
	address := []netip.Addr{netip.MustParseAddr("10.3.4.5")}
	b.ReportAllocs()
	for b.Loop() {
		if around := backend.covering("kube-system", address); len(around) != 1 {
			b.Fatal(around)
		}
	}
}
