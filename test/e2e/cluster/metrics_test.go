// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operatorModule has the CustomResourceDefinitions of what the component brings; hack/crds pins its version.
const (
	operatorModule = "github.com/prometheus-operator/prometheus-operator"
	definitions    = "example/prometheus-operator-crd"
)

// monitoringResources are those of the operator that the component has.
var monitoringResources = []string{"servicemonitors", "prometheusrules"}

// scraped reads the ServiceMonitor from the API server and does with it what Prometheus does with the configuration that its
// operator makes of it: it finds the targets, trusts the authority of the Secret alone, and shows its pod's token.
func scraped(ctx context.Context, w *world) {
	installMonitors(ctx)
	withComponents(ctx, "prometheus")
	var monitor monitoringv1.ServiceMonitor
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: system, Name: manager}, &monitor)).To(Succeed())
	Expect(monitor.Spec.Endpoints).To(HaveLen(1))
	endpoint := monitor.Spec.Endpoints[0]
	file := endpoint.BearerTokenFile //nolint:staticcheck // its successor takes a Secret, and so a token that is bound to no pod and never ends
	Expect(file).To(Equal("/var/run/secrets/kubernetes.io/serviceaccount/token"), "a pod's own token is what Prometheus has")

	reader := w.account(ctx, "prometheus")
	stranger := w.account(ctx, "stranger")
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "holdfast-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.namespace, Name: "prometheus"}},
	}
	Expect(admin.Create(ctx, binding)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, binding)).To(Succeed()) })

	addresses := targets(ctx, &monitor, endpoint.Port)
	Expect(addresses).To(HaveLen(2), "each replica is scraped by itself")
	scrape := scraper(ctx, &monitor)
	var all strings.Builder
	for _, address := range addresses {
		By("scrape " + address)
		url := string(*endpoint.Scheme) + "://" + address + endpoint.Path
		status, _ := scrape(url, "")
		Expect(status).To(Equal(http.StatusUnauthorized))
		status, _ = scrape(url, stranger)
		Expect(status).To(Equal(http.StatusForbidden))
		status, text := scrape(url, reader)
		Expect(status).To(Equal(http.StatusOK))
		Expect(text).To(MatchRegexp(`(?m)^holdfast_[a-z_]+(\{.*\})? [0-9]`))
		all.WriteString(text)
	}
	Expect(all.String()).To(MatchRegexp(`(?m)^holdfast_ipam_synced\{.*\} 1$`), "the replica that leads has listed the pools")
	Expect(all.String()).NotTo(MatchRegexp(`(?m)^holdfast_unclassified_total(\{.*\})? [1-9]`))
}

// installMonitors installs the ServiceMonitor's definition until the spec ends, unless it is there.
func installMonitors(ctx context.Context) {
	GinkgoHelper()
	folder := strings.TrimSpace(run(ctx, "go", "-C", "hack/crds", "list", "-m", "-f", "{{.Dir}}", operatorModule))
	Expect(folder).NotTo(BeEmpty(), "expected the module in Go's module cache: go -C hack/crds mod download")
	for _, resource := range monitoringResources {
		if run(ctx, kubectl(), "get", "crd", resource+".monitoring.coreos.com", "--ignore-not-found", "-o", "name") != "" {
			continue
		}
		definition := filepath.Join(folder, definitions, "monitoring.coreos.com_"+resource+".yaml")
		DeferCleanup(func(ctx context.Context) { run(ctx, kubectl(), "delete", "--ignore-not-found", "-f", definition) })
		run(ctx, kubectl(), "create", "-f", definition)
		run(ctx, kubectl(), "wait", "--for=condition=Established", "--timeout="+soon.String(), "-f", definition)
	}
}

// account makes a service account and a pod of it, and gives the token of that pod.
func (w *world) account(ctx context.Context, name string) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	Expect(admin.Create(ctx, account)).To(Succeed())
	pod := w.single(ctx, name, "", func(pod *corev1.Pod) { pod.Spec.ServiceAccountName = name })
	runs(ctx, pod)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	Expect(admin.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
}

// targets are what the operator lets Prometheus discover: the endpoints, behind the Services that the selector finds, of the
// port of that name.
func targets(ctx context.Context, monitor *monitoringv1.ServiceMonitor, port string) []string {
	GinkgoHelper()
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	Expect(err).NotTo(HaveOccurred())
	var services corev1.ServiceList
	Expect(admin.List(ctx, &services, client.InNamespace(monitor.Namespace), client.MatchingLabelsSelector{Selector: selector})).To(Succeed())
	Expect(services.Items).NotTo(BeEmpty())
	var found []string
	for _, service := range services.Items {
		var slices discoveryv1.EndpointSliceList
		Expect(admin.List(ctx, &slices, client.InNamespace(monitor.Namespace), client.MatchingLabelsSelector{
			Selector: labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service.Name}),
		})).To(Succeed())
		for _, slice := range slices.Items {
			found = append(found, addressesOf(&slice, port)...)
		}
	}
	return found
}

func addressesOf(slice *discoveryv1.EndpointSlice, port string) []string {
	var found []string
	for _, p := range slice.Ports {
		if *p.Name != port {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if *endpoint.Conditions.Ready {
				found = append(found, net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*p.Port))))
			}
		}
	}
	return found
}

// scraper gives what asks a target for its metrics with a token, over TLS as the ServiceMonitor says.
func scraper(ctx context.Context, monitor *monitoringv1.ServiceMonitor) func(url, token string) (int, string) {
	GinkgoHelper()
	configuration := monitor.Spec.Endpoints[0].TLSConfig
	reference := configuration.CA.Secret
	var secret corev1.Secret
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: monitor.Namespace, Name: reference.Name}, &secret)).To(Succeed())
	authorities := x509.NewCertPool()
	Expect(authorities.AppendCertsFromPEM(secret.Data[reference.Key])).To(BeTrue(), "no certificate at %s of Secret %s", reference.Key, reference.Name)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities, ServerName: *configuration.ServerName}}
	DeferCleanup(transport.CloseIdleConnections)
	http := &http.Client{Transport: transport}
	return func(url, token string) (int, string) {
		GinkgoHelper()
		request, err := newRequest(ctx, url, token)
		Expect(err).NotTo(HaveOccurred())
		response, err := http.Do(request)
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		Expect(err).NotTo(HaveOccurred())
		return response.StatusCode, string(text)
	}
}

func newRequest(ctx context.Context, url, token string) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err == nil && token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return request, err
}
