// SPDX-License-Identifier: Apache-2.0

// Package app wires the manager: one controller-runtime manager with the caches, the webhooks, the controllers and the
// backends of a configuration. The command calls it once; a suite may call it several times in one process.
//
// Webhooks and caches run in every replica, controllers only in the one that holds the Lease.
package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/cmd/internal/program"
	manifests "github.com/holdfast-dev/holdfast/config"
	"github.com/holdfast-dev/holdfast/controllers/kept"
	"github.com/holdfast-dev/holdfast/controllers/node"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/shadow"
)

const (
	// Name is the name of the ServiceAccount, the Lease and the user agent.
	Name = "holdfast-manager"

	// stopTimeout is what requests and reconciles in flight get to end. The manifest's terminationGracePeriodSeconds
	// is longer than preStop, DrainPeriod and this together.
	stopTimeout = 30 * time.Second

	defaultCertificateWait = 2 * time.Minute

	// leaseRetry is half of controller-runtime's: client-go adds up to 1.2 times as much before each try, twice after a leader was killed.
	leaseRetry = time.Second
)

// Options are what does not belong into the configuration file.
type Options struct {
	// Namespace is the manager's own. Default: holdfast-system.
	Namespace string
	// User is the manager's own user name, for which the unsafe-release webhooks allow everything. Default: that of
	// the ServiceAccount holdfast-manager in Namespace.
	User string
	// Log gets everything the manager logs. Default: controller-runtime's logger.
	Log logr.Logger
	// Clock is the real one except in tests.
	Clock clock.PassiveClock
	// LastRetry is the longest back-off of a controller whose reconcile failed. Default: 30 seconds.
	LastRetry time.Duration
	// DrainPeriod is how long, after a signal to stop, the manager serves while it reports that it is not ready and
	// ends every connection after its next response. Default: none.
	DrainPeriod time.Duration
	// CertificateWait is how long the start waits for tls.crt and tls.key. Default: 2 minutes.
	CertificateWait time.Duration

	// PoliciesSince is the time from which admission policies keep other accounts from writing what a kubelet reports. Default: what the API
	// server has; a suite without the policies sets it.
	PoliciesSince func(context.Context) (time.Time, error)

	// Adjust changes the options of the manager before it is made; for simulations, which have no sockets.
	Adjust func(*manager.Options)
	// SimulatedQueues has the queues of the controllers fit a simulation in virtual time (backoff.NewQueue).
	SimulatedQueues bool

	// shadow is nil in mode Guard; the configuration has the mode.
	shadow *shadow.Reporter
	// newInformer makes the informers of every cache; nil is client-go's own.
	newInformer node.NewInformer
	// nodeWatches counts the lists of the manager's cache.
	nodeWatches *node.Watches
}

func (o Options) withDefaults() Options {
	if o.Namespace == "" {
		o.Namespace = manifests.ManagerNamespace
	}
	if o.User == "" {
		o.User = "system:serviceaccount:" + o.Namespace + ":" + Name
	}
	if o.Log.GetSink() == nil {
		o.Log = log.Log
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.nodeWatches = &node.Watches{}
	if o.CertificateWait == 0 {
		o.CertificateWait = defaultCertificateWait
	}
	return o
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=holdfast-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=holdfast-system,resources=leases,resourceNames=holdfast-manager,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=holdfast-system,resources=events,verbs=create;patch

// New makes a manager that is ready to be started. The configuration is completed with defaults and validated; it is
// not changed. Nothing is written to the cluster before Start.
func New(ctx context.Context, restConfig *rest.Config, c *configv1alpha1.ManagerConfiguration, o Options) (manager.Manager, error) {
	c, err := config.Complete(c)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	limited := clientConfig(restConfig, c.Controller)
	enterMode(c.Mode, limited, &o)
	ctx = logr.NewContext(ctx, o.Log)
	// A value: the pointer has the method String of its TypeMeta, and would be logged as kind and apiVersion alone.
	o.Log.Info("Effective configuration", "configuration", *c)

	state := &lifecycle{}
	server := newWebhookServer(c.Server, o, state)
	options := managerOptions(c, o, server)
	if o.Adjust != nil {
		o.Adjust(&options)
	}
	o.newInformer = options.Cache.NewInformer
	options.Cache.NewInformer = o.nodeWatches.Informers(o.newInformer)
	mgr, err := manager.New(limited, options)
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := setup(ctx, mgr, c, o); err != nil {
		return nil, err
	}
	if err := addChecks(mgr, server, state, o); err != nil {
		return nil, err
	}
	return &drainingManager{Manager: mgr, state: state, period: o.DrainPeriod}, nil
}

func managerOptions(c *configv1alpha1.ManagerConfiguration, o Options, server webhook.Server) manager.Options {
	return manager.Options{
		Scheme:                  newScheme(),
		Logger:                  o.Log,
		Cache:                   cacheOptions(),
		WebhookServer:           server,
		Metrics:                 program.Metrics(c.Server.MetricsBindAddress, c.Server.CertDir),
		HealthProbeBindAddress:  c.Server.HealthProbeBindAddress,
		LeaderElection:          *c.Controller.LeaderElection,
		LeaderElectionID:        Name,
		LeaderElectionNamespace: o.Namespace,
		// The next leader need not wait for the Lease to run out; the process ends when the manager does.
		LeaderElectionReleaseOnCancel: true,
		RetryPeriod:                   new(leaseRetry),
		GracefulShutdownTimeout:       new(stopTimeout),
		// Names of controllers are unique per process, and a suite runs several managers in one.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	}
}

// cacheOptions defines what the manager's own cache keeps of each kind; a backend's pools are in a cache of the backend.
func cacheOptions() cache.Options {
	objects := kept.ByObject()
	maps.Copy(objects, noderesource.CacheByObject())
	return cache.Options{ByObject: objects, DefaultTransform: kept.Default}
}

// clientConfig is a copy with the limits of the configuration.
func clientConfig(restConfig *rest.Config, c configv1alpha1.Controller) *rest.Config {
	limited := rest.AddUserAgent(rest.CopyConfig(restConfig), Name)
	limited.QPS, limited.Burst = *c.QPS, int(*c.Burst)
	if limited.QPS == 0 {
		limited.QPS = -1 // no limit; zero is client-go's default of 5
	}
	return limited
}

// excludedNamespaces are those whose pods are never protected: a guard that holds up its own pods, its agents' or those of the
// cluster's network could not be repaired.
func excludedNamespaces(c *configv1alpha1.ManagerConfiguration, o Options) []string {
	namespaces := append([]string{o.Namespace, configv1alpha1.AgentNamespace, metav1.NamespaceSystem}, c.Protection.ExcludedNamespaces...)
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}
