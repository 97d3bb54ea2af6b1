// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam/whereabouts"
	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
	"github.com/holdfast-dev/holdfast/internal/testing/manifests"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	agentNamespace = "holdfast-agent"
	namespace      = "apps"
	network        = "blue"
	// poolRange is small, so that a released address is soon given to another pod.
	poolRange = "10.0.0.0/28"
)

var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, nadv1.AddToScheme, whereabouts.AddToScheme} {
		utilruntime.Must(add(s))
	}
	return s
})

// moduleDir is where the source of a module is.
func moduleDir(module string) string {
	return must(process.Output(context.Background(), "", "go", "list", "-m", "-f", "{{.Dir}}", module))
}

var repository = sync.OnceValue(func() string { return moduleDir("github.com/holdfast-dev/holdfast") })

var whereaboutsCRDs = sync.OnceValue(func() string {
	return filepath.Join(moduleDir("github.com/k8snetworkplumbingwg/whereabouts"), "doc", "crds")
})

// prepare reads what all histories share; call it outside of bubbles.
func prepare() {
	logging.SetLogStderr(false)     // whereabouts' own
	utilruntime.ErrorHandlers = nil // one of them pauses by the time of the last error, which may be another history's
	kindsOf()
	shipped()
	scheme()
}

// managed are the resources whose managedFields the product reads, besides those of the admission configuration.
var managed = []string{"pods", "ipallocations"}

// kindsOf are the kinds that the server serves. NodeResourcePolicies are not among them: that guard has its own suites.
var kindsOf = sync.OnceValue(func() []*apiserver.Kind {
	all := apiserver.Natives()
	pools := whereaboutsCRDs()
	for _, path := range []string{
		filepath.Join(repository(), "config", "crd", "bases", "holdfast.dev_ipallocations.yaml"),
		filepath.Join(repository(), "config", "crd", "bases", "holdfast.dev_guardednodes.yaml"),
		filepath.Join(repository(), "config", "crd", "bases", "holdfast.dev_allnodesqueries.yaml"),
		filepath.Join(pools, "whereabouts.cni.cncf.io_ippools.yaml"),
		filepath.Join(pools, "whereabouts.cni.cncf.io_overlappingrangeipreservations.yaml"),
		filepath.Join(pools, "whereabouts.cni.cncf.io_nodeslicepools.yaml"),
	} {
		all = append(all, must(apiserver.CustomFromFile(path)))
	}
	all = append(all, must(apiserver.Custom(networksCRD())))
	for _, kind := range all {
		kind.Unmanaged = kind.Group != admissionregistrationv1.GroupName && !slices.Contains(managed, kind.Plural)
	}
	return all
})

// shipped are the repository's webhook configurations and admission policies.
var shipped = sync.OnceValue(func() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, folder := range []string{"webhook", "policies"} {
		paths := must(filepath.Glob(filepath.Join(repository(), "config", folder, "*.yaml")))
		for _, path := range paths {
			for _, o := range must(manifests.Parse(must(os.ReadFile(path)))) {
				if strings.HasPrefix(o.GetAPIVersion(), "admissionregistration.k8s.io/") {
					all = append(all, o)
				}
			}
		}
	}
	return all
})

// installed is the cluster without its nodes, as the first history of the process put it up: it is the same in all.
var installed *apiserver.State

// install puts up the cluster without its nodes.
func (w *World) install() {
	if installed != nil {
		return
	}
	create := func(o client.Object) {
		if err := w.admin.Create(context.Background(), o); err != nil {
			panic(fmt.Sprintf("creating %T %s: %v", o, o.GetName(), err))
		}
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, "holdfast-system", agentNamespace, leaseNamespace, namespace} {
		create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name}}})
	}
	for _, o := range shipped() {
		create(o.DeepCopy())
	}
	create(&nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: network}, Spec: nadv1.NetworkAttachmentDefinitionSpec{
		Config: `{"cniVersion":"0.3.1","name":"blue","type":"macvlan","ipam":{"type":"whereabouts","range":"` + poolRange + `"}}`}})
	create(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "whereabouts"}})
	installed = w.server.State()
}

// networksCRD defines NetworkAttachmentDefinitions, as Multus does.
func networksCRD() *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	config := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"config": text}}
	properties := map[string]apiextensionsv1.JSONSchemaProps{"apiVersion": text, "kind": text, "metadata": {Type: "object"}, "spec": config}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "network-attachment-definitions.k8s.cni.cncf.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "k8s.cni.cncf.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "NetworkAttachmentDefinition", Plural: "network-attachment-definitions"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}}}}},
	}
}
