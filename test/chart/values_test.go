// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// authority looks like one, and is not read.
const authority = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// changes has for every value of values.yaml another one, and what has to be in the output because of it.
var changes = map[string]struct {
	to   any
	want string
}{
	"platform":                   {"k3s", "path: /run/k3s/containerd\n"},
	"namespace.create":           {true, "\n  name: holdfast-system\n"},
	"imagePullSecrets":           {[]any{values{"name": "registry"}}, "imagePullSecrets:"},
	"protection.admissionPolicy": {true, "kind: MutatingAdmissionPolicyBinding"},
	"protection.failurePolicy":   {"Fail", ""},
	"policies.kubeletAccounts":   {[]any{"jane"}, `expression: "[\"jane\"]"`},

	"policies.refuseForeignRemovals": {true, "name: holdfast-foreign-removals"},
	"policies.cniAccounts":           {[]any{"cni"}, `expression: "[\"cni\"]"`},
	"networkPolicy.enabled":          {true, "kind: NetworkPolicy"},
	"prometheus.enabled":             {true, "kind: PrometheusRule"},

	"prometheus.serviceMonitor.labels": {values{"release": "kube-prometheus-stack"}, "release: kube-prometheus-stack"},
	"certificates.issuerRef.name":      {"corp", "name: corp\n"},
	"certificates.issuerRef.kind":      {"ClusterIssuer", "kind: ClusterIssuer"},
	"certificates.issuerRef.group":     {"example.com", "group: example.com"},
	"certificates.caBundle":            {authority, "caBundle: LS0tLS1CRUdJTi"},

	"manager.image.repository":                        {"registry.example.com/manager", "image: registry.example.com/manager:"},
	"manager.image.tag":                               {"v9", "/holdfast-manager:v9\n"},
	"manager.image.digest":                            {digest, "/holdfast-manager@" + digest + "\n"},
	"manager.image.pullPolicy":                        {"Always", "imagePullPolicy: Always"},
	"manager.replicas":                                {3, "replicas: 3"},
	"manager.logLevel":                                {"debug", "--zap-log-level=debug"},
	"manager.podAnnotations":                          {values{"example.com/team": "net"}, "example.com/team: net"},
	"manager.priorityClassName":                       {"of-the-platform", "priorityClassName: of-the-platform"},
	"manager.hostNetwork":                             {true, "hostNetwork: true"},
	"manager.resources.requests.cpu":                  {"150m", "cpu: 150m"},
	"manager.resources.requests.memory":               {"300Mi", "memory: 300Mi"},
	"manager.resources.limits.memory":                 {"3Gi", "memory: 3Gi"},
	"manager.nodeSelector":                            {values{"example.com/pool": "system"}, "example.com/pool: system"},
	"manager.tolerations":                             {[]any{values{"key": "example.com/pool", "operator": "Exists"}}, "key: example.com/pool"},
	"manager.affinity":                                {values{"podAffinity": values{}}, "podAffinity:"},
	"manager.configuration.evidence":                  {"Kubelet", "evidence: Kubelet"},
	"manager.configuration.whereabouts.enabled":       {false, "enabled: false"},
	"manager.configuration.whereabouts.namespaces":    {[]any{"pools"}, "- pools"},
	"manager.configuration.unsafeReleases.mode":       {"Warn", "mode: Warn"},
	"manager.configuration.unsafeReleases.daemonSets": {[]any{"apps/cni"}, "- apps/cni"},
	"manager.configuration.server.certDir":            {"/certs", "mountPath: /certs"},

	"agent.enabled":                                    {false, ""},
	"agent.image.repository":                           {"registry.example.com/agent", "image: registry.example.com/agent:"},
	"agent.image.tag":                                  {"v9", "/holdfast-agent:v9\n"},
	"agent.image.digest":                               {digest, "/holdfast-agent@" + digest + "\n"},
	"agent.image.pullPolicy":                           {"Never", "imagePullPolicy: Never"},
	"agent.logLevel":                                   {"error", "--zap-log-level=error"},
	"agent.podAnnotations":                             {values{"example.com/team": "net"}, "example.com/team: net"},
	"agent.priorityClassName":                          {"of-the-platform", "priorityClassName: of-the-platform"},
	"agent.tolerations":                                {[]any{values{"key": "example.com/pool", "operator": "Exists"}}, "key: example.com/pool"},
	"agent.resources.requests.cpu":                     {"15m", "cpu: 15m"},
	"agent.resources.requests.memory":                  {"48Mi", "memory: 48Mi"},
	"agent.resources.limits.memory":                    {"192Mi", "memory: 192Mi"},
	"agent.audit.hostLocal":                            {true, "path: /var/lib/cni"},
	"agent.audit.awsIPAMD":                             {true, "path: /var/run/aws-node"},
	"agent.configuration.runtime.endpoint":             {"unix:///run/crio/crio.sock", "path: /run/crio\n"},
	"agent.configuration.machine.machineIDFile":        {"/host/id", "machineIDFile: /host/id"},
	"agent.configuration.machine.bootIDFile":           {"/host/id-of-boot", "bootIDFile: /host/id-of-boot"},
	"manager.configuration.protection.multusNamespace": {"multus", "multusNamespace: multus"},
}

// together are values that show only with another one, or do not go without it.
var together = map[string]struct {
	path string
	to   any
}{
	"agent.enabled":                    {"manager.configuration.evidence", "Kubelet"},
	"policies.cniAccounts":             {"policies.refuseForeignRemovals", true},
	"prometheus.serviceMonitor.labels": {"prometheus.enabled", true},
	"certificates.issuerRef.kind":      {"certificates.issuerRef.name", "corp"},
	"certificates.issuerRef.group":     {"certificates.issuerRef.name", "corp"},
}

// TestEveryValueHasEffect changes one value at a time, and wants to see it where it was not before.
func TestEveryValueHasEffect(t *testing.T) {
	for _, path := range leaves("", defaultValues(t)) {
		if _, known := changes[path]; !known {
			t.Errorf("%s is in values.yaml, and the table of this test does not change it", path)
		}
	}
	without, err := template(t, own, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			change := changes[path]
			given := with(values{}, path, change.to)
			if other, needed := together[path]; needed {
				given = with(given, other.path, other.to)
			}
			text, err := template(t, own, given)
			if err != nil {
				t.Fatal(err)
			}
			if text == without {
				t.Errorf("nothing is rendered in another way with %v", change.to)
			}
			if change.want != "" && (!strings.Contains(text+"\n", change.want) || strings.Contains(without, change.want)) {
				t.Errorf("%q: there with the change: %t, without: %t; expected only with it", change.want, strings.Contains(text+"\n", change.want), strings.Contains(without, change.want))
			}
		})
	}
}

// TestAnIssuerOfYours: the serving certificate alone is left, and nothing else of cert-manager.
func TestAnIssuerOfYours(t *testing.T) {
	ref := values{"name": "corp", "kind": "ClusterIssuer", "group": "cert-manager.io"}
	ours := byName(mustTemplate(t, nil))
	theirs := byName(mustTemplate(t, values{"certificates": values{"issuerRef": ref}}))
	for name, object := range ours {
		switch {
		case name == "Certificate "+own+"/holdfast-webhook":
			if err := unstructured.SetNestedField(object.Object, map[string]any(ref), "spec", "issuerRef"); err != nil {
				t.Fatal(err)
			}
		case object.GetAPIVersion() == "cert-manager.io/v1":
			delete(ours, name)
		}
	}
	if diff := cmp.Diff(ours, theirs); diff != "" {
		t.Errorf("(-the chart's own authority +an issuer)\n%s", diff)
	}
}

// TestACertificateOfYours: nothing of cert-manager is left, and every webhook has the authority.
func TestACertificateOfYours(t *testing.T) {
	ours := byName(mustTemplate(t, nil))
	theirs := byName(mustTemplate(t, values{"certificates": values{"caBundle": authority}}))
	for name, object := range ours {
		if object.GetAPIVersion() == "cert-manager.io/v1" {
			delete(ours, name)
			continue
		}
		if _, injected := object.GetAnnotations()["cert-manager.io/inject-ca-from"]; !injected {
			continue
		}
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations")
		hooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		if err != nil || len(hooks) == 0 {
			t.Fatalf("%s has no webhooks: %v", name, err)
		}
		for _, hook := range hooks {
			hook.(map[string]any)["clientConfig"].(map[string]any)["caBundle"] = base64.StdEncoding.EncodeToString([]byte(authority))
		}
		if err := unstructured.SetNestedSlice(object.Object, hooks, "webhooks"); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(ours, theirs); diff != "" {
		t.Errorf("(-cert-manager +a certificate of yours)\n%s", diff)
	}
}

// leaves are the paths of all values that have none below.
func leaves(prefix string, of map[string]any) []string {
	var paths []string
	for key, value := range of {
		path := strings.TrimPrefix(prefix+"."+key, ".")
		if inner, ok := value.(map[string]any); ok && len(inner) > 0 {
			paths = append(paths, leaves(path, inner)...)
		} else {
			paths = append(paths, path)
		}
	}
	return paths
}

// with is a copy of values with one more.
func with(given values, path string, value any) values {
	changed := maps.Clone(given)
	first, rest, below := strings.Cut(path, ".")
	if !below {
		changed[first] = value
		return changed
	}
	inner, _ := changed[first].(values)
	if inner == nil {
		inner = values{}
	}
	changed[first] = with(inner, rest, value)
	return changed
}

// TestContainerdsStateIsMountedWhereItIs: a directory of its own, unless the mount of the socket's folder has it.
func TestContainerdsStateIsMountedWhereItIs(t *testing.T) {
	cases := map[string]struct {
		endpoint, state string
		want            string
	}{
		"nowhere in particular":           {"/run/containerd/containerd.sock", "", ""},
		"in the folder of the socket":     {"unix:///run/containerd/containerd.sock", "/run/containerd", ""},
		"spelled another way":             {"/run/containerd/containerd.sock", "/run/./containerd/", ""},
		"below the folder of the socket":  {"/run/containerd/containerd.sock", "/run/containerd/state", ""},
		"elsewhere":                       {"/run/containerd/containerd.sock", "/var/lib/containerd-state", "/var/lib/containerd-state"},
		"elsewhere by a name like it":     {"/run/containerd/containerd.sock", "/run/containerd-state/", "/run/containerd-state"},
		"in a folder that has the socket": {"/run/containerd/sock/containerd.sock", "/run/containerd", "/run/containerd"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := with(with(values{}, "agent.configuration.runtime.endpoint", tc.endpoint), "agent.configuration.runtime.stateDirectory", tc.state)
			text, err := template(t, own, given)
			if err != nil {
				t.Fatal(err)
			}
			mount := "- name: runtime-state\n          mountPath: " + tc.want + "\n          readOnly: true\n"
			volume := "- name: runtime-state\n      hostPath:\n        path: " + tc.want + "\n        type: Directory\n"
			flat := flattened(text)
			for _, part := range []string{flattened(mount), flattened(volume)} {
				if strings.Contains(flat, part) != (tc.want != "") {
					t.Errorf("%q: expected only where the state is elsewhere", part)
				}
			}
			if tc.want == "" && strings.Contains(text, "runtime-state") {
				t.Error("a second mount of the same folder")
			}
		})
	}
}

// flattened has no indentation.
func flattened(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}

func TestWrongValuesAreRefused(t *testing.T) {
	cases := map[string]struct {
		given values
		want  []string
	}{
		"a misspelled key at the top":             {values{"agents": values{}}, []string{"agents"}},
		"a misspelled key below":                  {values{"manager": values{"replica": 2}}, []string{"replica"}},
		"a misspelled field of the configuration": {values{"manager": values{"configuration": values{"whereabuots": values{}}}}, []string{"whereabuots"}},
		"a misspelled field deep in it":           {values{"agent": values{"configuration": values{"runtime": values{"endPoint": "x"}}}}, []string{"endPoint"}},
		"a number that is a string":               {values{"manager": values{"replicas": "two"}}, []string{"replicas", "integer"}},
		"a switch that is a string":               {values{"agent": values{"enabled": "yes"}}, []string{"enabled", "boolean"}},
		"no replica":                              {values{"manager": values{"replicas": 0}}, []string{"replicas"}},
		"an enumeration's misspelled value":       {values{"protection": values{"failurePolicy": "fail"}}, []string{"failurePolicy", "Ignore", "Fail"}},
		"a misspelled mode of the configuration":  {values{"manager": values{"configuration": values{"unsafeReleases": values{"mode": "deny"}}}}, []string{"mode", "Deny"}},
		"a duration without a unit":               {values{"manager": values{"configuration": values{"delays": values{"releaseDelay": "180"}}}}, []string{"releaseDelay"}},
		"a digest that is none":                   {values{"manager": values{"image": values{"digest": "latest"}}}, []string{"digest"}},
		"no limit of the memory":                  {values{"manager": values{"resources": values{"limits": values{"memory": nil}}}}, []string{"memory"}},
		"evidence without agents":                 {values{"agent": values{"enabled": false}}, []string{"agent.enabled", "evidence"}},
		"agents without a runtime":                {values{"agent": values{"configuration": values{"runtime": values{"endpoint": ""}}}}, []string{"runtime.endpoint"}},
		"a shadow that protects":                  {with(inManager(values{"mode": "Shadow"}), "protection.admissionPolicy", true), []string{"mode is Shadow", "protection.admissionPolicy"}},
		"a shadow that refuses":                   {with(inManager(values{"mode": "Shadow"}), "protection.failurePolicy", "Fail"), []string{"mode is Shadow", "protection.failurePolicy"}},
		"probes without a port":                   {values{"manager": values{"configuration": values{"server": values{"healthProbeBindAddress": "0"}}}}, []string{"host:port"}},
		"an authority that is no PEM":             {values{"certificates": values{"caBundle": "ca.crt"}}, []string{"certificates.caBundle is no PEM", "--set-file"}},
		"an issuer and an authority":              {values{"certificates": values{"caBundle": authority, "issuerRef": values{"name": "corp"}}}, []string{"expected one"}},
		"certificates without a folder":           {values{"manager": values{"configuration": values{"server": values{"certDir": ""}}}}, []string{"certDir"}},
		"a list that is a string":                 {values{"manager": values{"configuration": values{"whereabouts": values{"namespaces": "kube-system"}}}}, []string{"namespaces", "array"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := template(t, own, tc.given)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in the error:\n%v", want, err)
				}
			}
		})
	}
}

func TestNamespacesThatTheReleaseCannotBeIn(t *testing.T) {
	for _, namespace := range []string{"holdfast-agent", "kube-system", "default"} {
		if _, err := template(t, namespace, nil); err == nil || !strings.Contains(err.Error(), "the release's namespace is "+namespace) {
			t.Errorf("%s: got %v", namespace, err)
		}
	}
}

// TestReleaseInAnotherNamespace: what kustomize has in holdfast-system is there, and nothing else differs.
func TestReleaseInAnotherNamespace(t *testing.T) {
	all := values{
		"namespace": values{"create": true}, "networkPolicy": values{"enabled": true}, "prometheus": values{"enabled": true},
		"protection": values{"admissionPolicy": true},
	}
	const other = "the-guard"
	there, err := template(t, other, all)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(there, own) {
		t.Errorf("%s is still named", own)
	}
	want := byName(mustTemplate(t, all))
	got := byName(split(t, strings.ReplaceAll(there, other, own)))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-%s +%s)\n%s", own, other, diff)
	}
}

func TestPortsFollowTheConfiguration(t *testing.T) {
	server := values{"webhookPort": 10250, "metricsBindAddress": "127.0.0.1:18443", "healthProbeBindAddress": ":18081"}
	objects := byName(mustTemplate(t, values{
		"manager": values{"configuration": values{"server": server}},
		"agent":   values{"configuration": values{"server": values{"metricsBindAddress": ":28443", "healthProbeBindAddress": ":28081"}}},
	}))
	for object, want := range map[string]map[string]int64{
		"Deployment holdfast-system/holdfast-manager": {"webhook": 10250, "metrics": 18443, "health": 18081},
		"DaemonSet holdfast-agent/holdfast-agent":     {"metrics": 28443, "health": 28081},
	} {
		containers, _, err := unstructured.NestedSlice(objects[object].Object, "spec", "template", "spec", "containers")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int64{}
		for _, port := range containers[0].(map[string]any)["ports"].([]any) {
			p := port.(map[string]any)
			got[p["name"].(string)] = p["containerPort"].(int64)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", object, diff)
		}
	}
}

func TestLint(t *testing.T) {
	for name, given := range map[string]values{
		"the defaults": nil,
		"everything":   profiles["everything that can be combined"].values,
	} {
		t.Run(name, func(t *testing.T) {
			text, err := helm(t, given, "lint", "--strict", "--namespace="+own, "--kube-version="+kubeVersion, chart)
			if err != nil || strings.Contains(text, "[WARNING]") {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}
