// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadfake "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned/fake"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
	"github.com/holdfast-dev/holdfast/hack/dev/simnode/link"
)

const wbPlugin = `{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/29"}}`

func newPod(annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-0", UID: "uid-1", Annotations: annotations}}
}

// newPlugins returns plugins with fakes of the API server, which has the pod and
// three networks.
func newPlugins(t *testing.T, pod *corev1.Pod) *Plugins {
	t.Helper()
	o := Options{
		Node: "node-a", Uplink: rest.CopyConfig, Multus: &rest.Config{Host: "https://127.0.0.1:1"},
		StateDir: t.TempDir(), PodCIDR: netip.MustParsePrefix("10.244.0.0/24"),
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	client := nadfake.NewSimpleClientset()
	for _, nad := range []struct{ namespace, name, config string }{
		{"ns", "wb", wbPlugin},
		{"kube-system", "flat", wbPlugin},
		{"ns", "plain", `{"type":"bridge"}`},
		{"ns", "broken", `{"type":`},
	} {
		_, err := client.K8sCniCncfIoV1().NetworkAttachmentDefinitions(nad.namespace).Create(t.Context(), &nadv1.NetworkAttachmentDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: nad.name}, Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: nad.config},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	p.pods, p.nads = fake.NewClientset(pod), client
	return p
}

func TestAttachments(t *testing.T) {
	const networks = nadv1.NetworkAttachmentAnnot
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        []string // network, interface, "whereabouts" where it is used
		err         string
	}{
		"a pod that names none has the cluster's": {nil, []string{"cluster eth0"}, ""},
		"names, in two namespaces and with an interface": {
			map[string]string{networks: "wb, kube-system/flat@data0"},
			[]string{"cluster eth0", "ns/wb net1 whereabouts", "kube-system/flat data0 whereabouts"}, "",
		},
		"JSON": {
			map[string]string{networks: `[{"name":"wb","interface":"lan"},{"name":"plain"}]`},
			[]string{"cluster eth0", "ns/wb lan whereabouts", "ns/plain net2"}, "",
		},
		"an annotation that is no JSON":           {map[string]string{networks: "[{"}, nil, "multus"},
		"a network that does not exist":           {map[string]string{networks: "missing"}, nil, "ns/missing"},
		"a network whose configuration is broken": {map[string]string{networks: "broken"}, nil, "ns/broken"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(tc.annotations)
			list, err := newPlugins(t, pod).attachments(t.Context(), pod)
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error %v, want one with %q", err, tc.err)
			}
			var got []string
			for _, a := range list {
				line := a.network + " " + a.interfaceName
				for _, plugin := range a.plugins {
					if plugin.usesWhereabouts {
						line += " whereabouts"
					}
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("attachments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAttachmentsOfAPodOfTheSameNameAreRefused(t *testing.T) {
	p := newPlugins(t, newPod(nil))
	other := newPod(nil)
	other.UID = "uid-2"
	if _, err := p.attachments(t.Context(), other); err == nil || !strings.Contains(err.Error(), "uid-1") {
		t.Errorf("error %v, want one with the UID that was found", err)
	}
}

func TestAddReportsNetworksAndDelGivesThemBack(t *testing.T) {
	pod := newPod(map[string]string{nadv1.NetworkAttachmentAnnot: "plain"})
	p := newPlugins(t, pod)
	var recorded []api.Address
	ip, err := p.Add(t.Context(), "sandbox-1", pod, func(a api.Address) { recorded = append(recorded, a) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]api.Address{{Interface: "eth0", IP: ip, Network: api.ClusterNetwork}}, recorded); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	live, err := p.pods.CoreV1().Pods("ns").Get(t.Context(), "web-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var statuses []nadv1.NetworkStatus
	if err := json.Unmarshal([]byte(live.Annotations[nadv1.NetworkStatusAnnot]), &statuses); err != nil {
		t.Fatal(err)
	}
	want := []nadv1.NetworkStatus{{Name: "cluster", Interface: "eth0", IPs: []string{ip}, Default: true}, {Name: "ns/plain", Interface: "net1"}}
	if diff := cmp.Diff(want, statuses); diff != "" {
		t.Errorf("network-status (-want +got):\n%s", diff)
	}
	for _, networks := range []int{2, 0} {
		results, err := p.Del(t.Context(), "sandbox-1", pod)
		if err != nil || len(results) != networks {
			t.Errorf("DEL of %d networks: %v, error %v", networks, results, err)
		}
	}
}

func TestWhereaboutsNeedsItsDaemonSet(t *testing.T) {
	pod := newPod(map[string]string{nadv1.NetworkAttachmentAnnot: "wb"})
	p := newPlugins(t, pod)
	if _, err := p.Add(t.Context(), "sandbox-1", pod, func(api.Address) {}); !errors.Is(err, errNotInstalled) {
		t.Errorf("ADD: error %v, want %v", err, errNotInstalled)
	}
	if _, err := p.Del(t.Context(), "sandbox-1", pod); !errors.Is(err, errNotInstalled) {
		t.Errorf("DEL: error %v, want %v", err, errNotInstalled)
	}
}

func TestSplitPlugins(t *testing.T) {
	for name, tc := range map[string]struct {
		config string
		want   []string
		err    string
	}{
		"a plugin of its own": {`{"name":"n","type":"macvlan"}`, []string{`{"name":"n","type":"macvlan"}`}, ""},
		"a list, whose name and version every plugin gets": {
			`{"name":"n","cniVersion":"0.3.1","plugins":[{"type":"macvlan"},{"type":"tuning"}]}`,
			[]string{`{"cniVersion":"0.3.1","name":"n","type":"macvlan"}`, `{"cniVersion":"0.3.1","name":"n","type":"tuning"}`}, "",
		},
		"an empty list":              {`{"name":"n","plugins":[]}`, nil, ""},
		"a list of something else":   {`{"plugins":["macvlan"]}`, nil, "plugins[0]"},
		"a plugin without a type":    {`{"name":"n"}`, nil, "no type"},
		"a configuration of no kind": {`[]`, nil, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			plugins, err := splitPlugins([]byte(tc.config))
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error %v, want one with %q", err, tc.err)
			}
			var got []string
			for _, p := range plugins {
				got = append(got, string(p.config))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClusterNetworkGoesRound(t *testing.T) {
	n := newClusterNetwork(netip.MustParsePrefix("10.244.0.0/29")) // .1 is the gateway's, .7 the broadcast address
	var got []string
	for _, sandbox := range []string{"a", "b", "c", "d", "e"} {
		ip, err := n.Add(sandbox)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ip)
	}
	if _, err := n.Add("f"); err == nil {
		t.Error("a full network gave out an address")
	}
	n.Del("b")
	ip, err := n.Add("f")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"10.244.0.2", "10.244.0.3", "10.244.0.4", "10.244.0.5", "10.244.0.6", "10.244.0.3"}
	if diff := cmp.Diff(want, append(got, ip)); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

func TestCutRefusesConnectionsOverAnUplinkThatWorks(t *testing.T) {
	uplink := link.New(syscall.ENETUNREACH)
	p, err := New(Options{
		Node: "node-a", Uplink: uplink.Apply, Multus: &rest.Config{Host: "https://127.0.0.1:1"},
		StateDir: t.TempDir(), PodCIDR: netip.MustParsePrefix("10.244.0.0/24"),
	})
	if err != nil {
		t.Fatal(err)
	}
	config := p.way(&rest.Config{Host: "https://127.0.0.1:1"})
	reached := config.WrapTransport(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		uplink, plugins bool // cut
		want            error
	}{{false, false, nil}, {false, true, syscall.ECONNREFUSED}, {true, false, syscall.ENETUNREACH}, {false, false, nil}} {
		uplink.Set(tc.uplink)
		p.Cut(tc.plugins)
		response, err := reached.RoundTrip(request)
		if err == nil {
			response.Body.Close()
		}
		if !errors.Is(err, tc.want) || p.IsCut() != tc.plugins {
			t.Errorf("uplink cut %t, plugins cut %t: error %v, want %v", tc.uplink, tc.plugins, err, tc.want)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
