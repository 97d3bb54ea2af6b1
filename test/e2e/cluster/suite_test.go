// SPDX-License-Identifier: Apache-2.0

// Package cluster_test breaks a real cluster and watches every address. The nodes are real kubelets and containerds with
// Multus and whereabouts (make cluster-up), Holdfast is installed as users install it, and the judge is package observer,
// which shares no code with the product.
//
// Every scenario that is a failure of the field runs first without Holdfast, where the harm has to show on this very cluster,
// and then with it, where it must not.
package cluster_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	whereaboutsv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/versioned"
)

// The bounds of waits. Nothing is asserted of how fast things are.
const (
	// soon bounds what pods and controllers do by themselves.
	soon = 2 * time.Minute
	// nodeSoon bounds a node's way to Ready or to NotReady.
	nodeSoon = 3 * time.Minute
	// reconcilerSoon bounds the wait for whereabouts' reconciler, which runs every minute, and for what follows.
	reconcilerSoon = 3 * time.Minute
	// deleteSoon bounds a CNI DEL without an API server, which whereabouts ends after a minute, and what follows.
	deleteSoon = 4 * time.Minute
	// installSoon bounds an installation and an uninstallation.
	installSoon  = 5 * time.Minute
	pollInterval = 250 * time.Millisecond
	// shows is how long something that must not happen is waited for.
	shows = 5 * time.Second
)

const repository = "../../.."

var (
	scheme = runtime.NewScheme()
	// admin is uncached and allowed everything.
	admin      client.Client
	kubeconfig string
	// powered: the cluster is that of make cluster-up, whose nodes can be broken and looked into. On another one, which KUBECONFIG
	// names, nodes are not observed; only what the API server shows is judged.
	powered bool
	// server is the version of the API server. chosen is the label filter of what is to run, and unshown that of what the cluster cannot show.
	server          *version.Version
	chosen, unshown string
)

func init() {
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, certmanagerv1.AddToScheme,
		monitoringv1.AddToScheme, nadv1.AddToScheme, whereaboutsv1alpha1.AddToScheme, v1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
}

func TestCluster(t *testing.T) {
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	chosen = cmp.Or(os.Getenv("E2E_LABELS"), suite.LabelFilter)
	if err := connect(); err != nil {
		t.Fatal(err)
	}
	withInterfaces, err := entriesHaveInterfaces(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if unshown = versioned.LeftOut(server); !withInterfaces {
		unshown = "(" + unshown + " || " + interfaces + ")"
	}
	suite.LabelFilter = "!" + unshown
	if chosen != "" {
		suite.LabelFilter = "(" + chosen + ") && " + suite.LabelFilter
	}
	RunSpecs(t, "A real cluster", suite, reporter)
}

var _ = BeforeSuite(func() {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(soon)
	SetDefaultEventuallyPollingInterval(pollInterval)
	SetDefaultConsistentlyDuration(shows)
	SetDefaultConsistentlyPollingInterval(pollInterval)
	logf.SetLogger(GinkgoLogr)
})

// connect finds the cluster and the version of its API server.
func connect() error {
	kubeconfig = os.Getenv("KUBECONFIG")
	powered = kubeconfig == ""
	if powered {
		kubeconfig = filepath.Join(repository, clusterFolder, "kubeconfig")
	}
	var err error
	if kubeconfig, err = filepath.Abs(kubeconfig); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("%w: expected a kubeconfig in KUBECONFIG, or a cluster of make cluster-up", err)
	}
	config.QPS, config.Burst = 100, 200
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	reported, err := asked.ServerVersion()
	if err != nil {
		return fmt.Errorf("asking the API server of %s for its version: %w", kubeconfig, err)
	}
	if server, err = version.ParseGeneric(reported.GitVersion); err != nil {
		return err
	}
	admin, err = client.New(config, client.Options{Scheme: scheme})
	return err
}

// entriesHaveInterfaces reads the definition of whereabouts' pools, which drops what it does not have.
func entriesHaveInterfaces(ctx context.Context) (bool, error) {
	var pools apiextensionsv1.CustomResourceDefinition
	if err := admin.Get(ctx, client.ObjectKey{Name: "ippools.whereabouts.cni.cncf.io"}, &pools); err != nil {
		return false, fmt.Errorf("reading the definition of whereabouts' pools: %w", err)
	}
	for _, version := range pools.Spec.Versions {
		allocations := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties["allocations"].AdditionalProperties
		if allocations != nil && allocations.Schema != nil {
			if _, has := allocations.Schema.Properties["ifname"]; has {
				return true, nil
			}
		}
	}
	return false, nil
}
