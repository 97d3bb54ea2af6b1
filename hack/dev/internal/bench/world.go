// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/hack/dev/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode"
	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	// settleTimeout bounds every wait: 5,000 pods of deleted Nodes take four minutes and more to be released.
	settleTimeout = 20 * time.Minute
	pollInterval  = 100 * time.Millisecond

	// simulatedNode runs pods in the experiments that need a pod's life.
	simulatedNode = "node-a"
)

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, nadv1.AddToScheme, v1alpha1.AddToScheme} {
		utilruntime.Must(add(s))
	}
	return s
}()

// world is the cluster of one experiment.
type world struct {
	options    Options
	experiment experiment
	dir        string
	cluster    *cluster.Cluster
	// seed is the administrator, who is exempt from priority and fairness: for what is not measured.
	seed client.Client
	// load is an ordinary user, where an experiment has one for more than one arm.
	load kubernetes.Interface

	// metrics is where the manager serves its metrics, and profiles where a profiled one serves those.
	metrics, profiles string

	mutex   sync.Mutex
	running map[string]int
	stops   []func() error
}

// newWorld starts a cluster for an experiment. suffix is that of its folder, where an experiment has more than one.
func newWorld(ctx context.Context, o Options, e experiment, suffix string) (_ *world, err error) {
	w := &world{options: o, experiment: e, dir: filepath.Join(o.Work, e.rows[0].Name+suffix), running: map[string]int{"load": os.Getpid()}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.stop())
		}
	}()
	if e.needs.noCluster {
		return w, os.MkdirAll(w.dir, 0o755)
	}
	arguments, err := w.apiServerArguments(e.needs)
	if err != nil {
		return nil, err
	}
	nodes := e.needs.nodes
	if nodes == nil {
		nodes = []string{simulatedNode}
	}
	options := cluster.Options{Root: o.Root, Dir: w.dir, Nodes: nodes, NodeMonitorGracePeriod: time.Hour,
		APIServerArgs: arguments, ManagerEnv: e.needs.managerEnv, SimNode: simnode.Options{DelTimeout: e.needs.delTimeout}, Log: o.Progress, Started: w.started}
	if o.Profile {
		if options.Manager, err = w.profiledManager(ctx); err != nil {
			return nil, err
		}
		options.ManagerEnv = append(slices.Clone(options.ManagerEnv), profileAddress+"="+w.profiles)
	}
	if w.cluster, err = cluster.Start(ctx, options); err != nil {
		return nil, err
	}
	w.onStop(w.cluster.Stop)
	w.onStop(func() error { httpClient.CloseIdleConnections(); return nil }) // etcd waits for them before it ends
	config := w.cluster.Config()
	config.QPS = -1
	if w.seed, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	w.metrics = fmt.Sprintf("127.0.0.1:%d", port)
	if err := w.cluster.InstallGuard(ctx, cluster.GuardOptions{Configure: w.asInstalled}); err != nil {
		return nil, err
	}
	if e.needs.reports {
		err = w.ageReports(ctx)
	}
	return w, err
}

// asInstalled takes back what a development cluster does otherwise than an installation.
func (w *world) asInstalled(c *configv1alpha1.ManagerConfiguration) {
	c.Server.MetricsBindAddress = w.metrics
	c.NodeResources.SweepInterval = &metav1.Duration{Duration: 10 * time.Minute}
	if w.experiment.needs.poolsApart {
		c.Whereabouts.Namespaces = []string{simnode.WhereaboutsNamespace, w.poolNamespace()}
	}
	if w.experiment.needs.configure != nil {
		w.experiment.needs.configure(c)
	}
}

// ageReports has a kubelet's report on a new pod count as evidence at once, as in an installation of more than a minute: what the evidence rests on is
// dated back in etcd, because the API server lets no client do that.
func (w *world) ageReports(ctx context.Context) error {
	var policies admissionregistrationv1.ValidatingAdmissionPolicyList
	var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
	if err := errors.Join(w.seed.List(ctx, &policies), w.seed.List(ctx, &bindings)); err != nil {
		return err
	}
	var puts []etcdOperation
	age := func(kind, folder string, o client.Object) error {
		o.GetObjectKind().SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind))
		o.SetCreationTimestamp(metav1.NewTime(o.GetCreationTimestamp().Add(-reportpolicy.LoadTime)))
		content, err := json.Marshal(o)
		puts = append(puts, putOf("/registry/"+folder+"/"+o.GetName(), string(content)))
		return err
	}
	for i := range policies.Items {
		if err := age("ValidatingAdmissionPolicy", "validatingadmissionpolicies", &policies.Items[i]); err != nil {
			return err
		}
	}
	for i := range bindings.Items {
		if err := age("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", &bindings.Items[i]); err != nil {
			return err
		}
	}
	if err := w.commit(ctx, puts); err != nil {
		return err
	}
	return w.awaitReports(ctx)
}

// awaitReports waits until a kubelet's report on a new pod counts as evidence, as it does in an installation of more than a minute.
func (w *world) awaitReports(ctx context.Context) error {
	return await(ctx, "the policies to be older than new pods", func(ctx context.Context) (bool, error) {
		var policies admissionregistrationv1.ValidatingAdmissionPolicyList
		var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
		if err := errors.Join(w.seed.List(ctx, &policies), w.seed.List(ctx, &bindings)); err != nil {
			return false, err
		}
		if w.options.Base && !slices.ContainsFunc(policies.Items, func(p admissionregistrationv1.ValidatingAdmissionPolicy) bool {
			return p.Name == reportpolicy.KubeletReports
		}) {
			return true, nil // a version before that policy accepts reports at once
		}
		judgement := reportpolicy.Evidence(policies.Items, bindings.Items)
		return judgement.InForce() && time.Now().After(judgement.Since), nil
	})
}

// started keeps the newest process of a name: the manager may be started again.
func (w *world) started(child cluster.Child) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.running[child.Name] = child.PID
}

// size is how many operations a turn has.
func (w *world) size(complete, quick int) int {
	if w.options.Quick {
		return quick
	}
	return complete
}

// forget stops the accounting of a process that is about to be stopped.
func (w *world) forget(name string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.running, name)
}

func (w *world) processes() map[string]int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return maps.Clone(w.running)
}

func (w *world) onStop(stop func() error) { w.stops = append(w.stops, stop) }

func (w *world) stop() error {
	var errs []error
	for i := len(w.stops) - 1; i >= 0; i-- {
		errs = append(errs, w.stops[i]())
	}
	w.stops = nil
	return errors.Join(errs...)
}

// account is a user of its own with these rights and no limit of its own, to which priority and fairness applies as to any other.
func (w *world) account(ctx context.Context, name string, groups []string, rules ...rbacv1.PolicyRule) (*rest.Config, error) {
	config, _, err := w.cluster.ControlPlane().AddUser(name, groups...)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf // as Kubernetes' own clients
	if len(rules) == 0 {
		return config, nil
	}
	role := "bench:" + name
	return config, errors.Join(
		w.seed.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules}),
		w.seed.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}}}),
	)
}

// loadClient is a client of the load's own user, with these rights.
func (w *world) loadClient(ctx context.Context, rules ...rbacv1.PolicyRule) (*kubernetes.Clientset, error) {
	config, err := w.account(ctx, "load", nil, rules...)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// network makes a network of whereabouts; ipam is what its IPAM's configuration says of addresses.
func (w *world) network(ctx context.Context, namespace, name, ipam string) error {
	return w.seed.Create(ctx, &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: fmt.Sprintf(
			`{"cniVersion":"0.3.1","name":%q,"type":"macvlan","master":"eth1","mode":"bridge","ipam":{"type":"whereabouts",%s}}`, name, ipam)}})
}

// namespace makes a namespace with a network of whereabouts in it.
func (w *world) namespace(ctx context.Context, name string) error {
	if err := w.seed.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return err
	}
	if err := w.network(ctx, name, network, `"range":"10.0.0.0/16"`); err != nil {
		return err
	}
	return await(ctx, "the default ServiceAccount of namespace "+name, func(ctx context.Context) (bool, error) {
		err := w.seed.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
}

// clear deletes the pods of a namespace and waits until they are gone.
func (w *world) clear(ctx context.Context, namespace string) error {
	if err := w.seed.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0)); err != nil {
		return err
	}
	return w.awaitNoPods(ctx, namespace)
}

func (w *world) awaitNoPods(ctx context.Context, namespace string) error {
	return await(ctx, "the pods of namespace "+namespace+" to be gone", func(ctx context.Context) (bool, error) {
		pods := &metav1.PartialObjectMetadataList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		err := w.seed.List(ctx, pods, client.InNamespace(namespace), client.Limit(1))
		return len(pods.Items) == 0, err
	})
}

// await repeats the check until it passes.
func await(ctx context.Context, what string, check func(context.Context) (bool, error)) error {
	return awaitFor(ctx, settleTimeout, what, check)
}

func awaitFor(ctx context.Context, timeout time.Duration, what string, check func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		done, err := check(ctx)
		if apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) {
			return false, nil
		}
		return done, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}
