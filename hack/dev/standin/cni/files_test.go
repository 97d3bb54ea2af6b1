// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/api"
)

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestHermeticKeepsThePluginOffThisMachine(t *testing.T) {
	named := filepath.Join(t.TempDir(), "named.conf")
	writeFile(t, named, `{}`)
	for name, tc := range map[string]struct{ own, want string }{
		"no flat file is named": {
			`{"ipam":{"type":"whereabouts","range":"10.0.0.0/29","log_file":"/var/log/x"}}`,
			`{"ipam":{"configuration_path":"/state/flat","range":"10.0.0.0/29","type":"whereabouts"}}`,
		},
		"one that does not exist": {
			`{"ipam":{"type":"whereabouts","configuration_path":"/does/not/exist"}}`,
			`{"ipam":{"configuration_path":"/state/flat","type":"whereabouts"}}`,
		},
		"one that exists": {
			`{"ipam":{"type":"whereabouts","configuration_path":"` + named + `"}}`,
			`{"ipam":{"configuration_path":"` + named + `","type":"whereabouts"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			own, err := hermetic([]byte(tc.own), "/state/flat")
			if err != nil {
				t.Fatal(err)
			}
			if string(own) != tc.want {
				t.Errorf("got %s, want %s", own, tc.want)
			}
		})
	}
	if _, err := hermetic([]byte(`{"type":"macvlan"}`), "/state/flat"); err == nil {
		t.Error("a plugin without IPAM is no error")
	}
}

func TestNamespaceIsThatOfTheKubeconfig(t *testing.T) {
	const clusters = `{"apiVersion":"v1","kind":"Config","current-context":"one","contexts":[{"name":"one","context":{"cluster":"c"NAMESPACE}}]}`
	folder := t.TempDir()
	w, err := newWhereabouts(Options{StateDir: folder, WhereaboutsNamespace: "default-one"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ content, want, err string }{
		"of its context":                      {strings.Replace(clusters, "NAMESPACE", `,"namespace":"other"`, 1), "other", ""},
		"kube-system where it has none":       {strings.Replace(clusters, "NAMESPACE", "", 1), "kube-system", ""},
		"no context is current":               {`{"apiVersion":"v1","kind":"Config"}`, "", "no current context"},
		"what is no kubeconfig is an error":   {`[`, "", "kubeconfig"},
		"one that is not there is one, too":   {"", "", "no such file"},
		"that of the flat file is never read": {"flat", "default-one", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kubeconfig")
			switch tc.content {
			case "":
			case "flat":
				path = filepath.Join(folder, "whereabouts.kubeconfig")
			default:
				writeFile(t, path, tc.content)
			}
			got, err := w.namespace(path)
			if got != tc.want || (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %q, error %v; want %q, error with %q", got, err, tc.want, tc.err)
			}
		})
	}
}

func TestMultusOwnConfigurationNamesTheClustersNetwork(t *testing.T) {
	for name, tc := range map[string]struct{ content, want, err string }{
		"no file":                        {"", api.ClusterNetwork, ""},
		"a file that names none":         {`{"type":"multus"}`, api.ClusterNetwork, ""},
		"a file that names one":          {`{"clusterNetwork":"flat"}`, "kube-system/flat", ""},
		"one that does not exist":        {`{"clusterNetwork":"missing"}`, "", "kube-system/missing"},
		"several":                        {`{"clusterNetwork":"flat,wb"}`, "", "clusterNetwork names 2"},
		"what nobody can read as a name": {`{"clusterNetwork":"a/b/c"}`, "", "clusterNetwork"},
		"no JSON":                        {`{`, "", "its configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(nil)
			p := newPlugins(t, pod)
			if tc.content != "" {
				writeFile(t, filepath.Join(p.options.StateDir, MultusFile), tc.content)
			}
			list, err := p.attachments(t.Context(), pod)
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error %v, want one with %q", err, tc.err)
			}
			if err == nil && (len(list) != 1 || list[0].network != tc.want || list[0].interfaceName != defaultInterface) {
				t.Errorf("got %+v, want %s on %s", list, tc.want, defaultInterface)
			}
		})
	}
}

func TestAnEmptyDefinitionIsAFileOnTheMachine(t *testing.T) {
	pod := newPod(map[string]string{nadv1.NetworkAttachmentAnnot: "empty"})
	p := newPlugins(t, pod)
	_, err := p.nads.K8sCniCncfIoV1().NetworkAttachmentDefinitions("ns").Create(t.Context(),
		&nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.attachments(t.Context(), pod); err == nil || !strings.Contains(err.Error(), "ns/empty") {
		t.Errorf("without the file: error %v, want one that names the network", err)
	}
	writeFile(t, filepath.Join(p.options.StateDir, ConfigurationFolder, "10-empty.conf"),
		`{"cniVersion":"0.3.1","name":"empty","type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/29"}}`)
	list, err := p.attachments(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || len(list[1].plugins) != 1 || !list[1].plugins[0].usesWhereabouts {
		t.Errorf("got %+v, want eth0 and one plugin that uses whereabouts", list)
	}
}
