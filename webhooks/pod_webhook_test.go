// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/protection"
)

// definitions is a reader of NetworkAttachmentDefinitions: configs by namespace/name, and how often it was asked.
type definitions struct {
	client.Reader
	configs map[string]string
	err     error
	reads   int
}

func (d *definitions) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	d.reads++
	if d.err != nil {
		return d.err
	}
	config, exists := d.configs[key.String()]
	if !exists {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "network-attachment-definitions"}, key.Name)
	}
	into.(*nadv1.NetworkAttachmentDefinition).Spec.Config = config
	return nil
}

func newDefinitions() *definitions {
	return &definitions{configs: map[string]string{
		"apps/blue":        `{"type":"macvlan","ipam":{"type":"whereabouts"}}`,
		"apps/grey":        `{"type":"macvlan","ipam":{"type":"host-local"}}`,
		"apps/broken":      `{"type":`,
		"apps/on-node":     ``,
		"kube-system/base": `{"plugins":[{"type":"bridge","ipam":{"type":"whereabouts"}}]}`,
	}}
}

func defaulter(t testing.TB, reader client.Reader, rules protection.Rules) *PodDefaulter {
	t.Helper()
	d, err := NewPodDefaulter(PodOptions{Rules: rules, Reader: reader, Manages: func(i podnetwork.IPAM) bool { return i.Type == "whereabouts" }})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func creation(raw string) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create,
		Namespace: "apps",
		Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object:    runtime.RawExtension{Raw: []byte(raw)},
	}}
}

// annotated is a pod in JSON with one annotation; rest goes into its metadata.
func annotated(annotation, value, rest string) string {
	quoted, _ := json.Marshal(value)
	return fmt.Sprintf(`{"metadata":{"generateName":"web-","annotations":{%q:%s}%s},"spec":{"containers":[{"name":"c","unheardOf":1.0}]}}`, annotation, quoted, rest)
}

func naming(networks string) string { return annotated(podnetwork.NetworksAnnotation, networks, "") }

// apply gives the object after the response's patch.
func apply(t *testing.T, raw string, response admission.Response) map[string]any {
	t.Helper()
	patched := []byte(raw)
	if response.Patch != nil {
		if response.PatchType == nil || *response.PatchType != admissionv1.PatchTypeJSONPatch {
			t.Errorf("the type of the patch is %v", response.PatchType)
		}
		patch, err := jsonpatch.DecodePatch(response.Patch)
		if err != nil {
			t.Fatal(err)
		}
		if patched, err = patch.Apply(patched); err != nil {
			t.Fatalf("the patch %s does not apply to %s: %v", response.Patch, raw, err)
		}
	}
	var object map[string]any
	if err := json.Unmarshal(patched, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestPodDefaulter(t *testing.T) {
	cases := map[string]struct {
		pod       string
		rules     protection.Rules
		err       error
		protected bool
		warnings  []string
		reads     int
	}{
		"a pod that names no network":                   {pod: `{"metadata":{"name":"a"},"spec":{}}`},
		"a guarded network":                             {pod: naming("blue"), protected: true, reads: 1},
		"a guarded network in JSON":                     {pod: naming(`[{"name":"blue","interface":"net7"}]`), protected: true, reads: 1},
		"the same network twice is read once":           {pod: naming("grey,apps/grey@net2"), reads: 1},
		"an unguarded network":                          {pod: naming("grey"), reads: 1},
		"a guarded network among unguarded ones":        {pod: naming("grey,blue"), protected: true, reads: 2},
		"a guarded default network":                     {pod: annotated(podnetwork.DefaultNetworkAnnotation, "base", ""), protected: true, reads: 1},
		"a default network, Multus elsewhere":           {pod: annotated(podnetwork.DefaultNetworkAnnotation, "grey", ""), rules: protection.Rules{MultusNamespace: "apps"}, reads: 1},
		"a definition that does not exist":              {pod: naming("new"), protected: true, warnings: []string{"apps/new does not exist (yet)"}, reads: 1},
		"a broken definition":                           {pod: naming("broken"), protected: true, warnings: []string{"apps/broken: spec.config is no JSON"}, reads: 1},
		"a configuration on the nodes is no error":      {pod: naming("on-node"), protected: true, reads: 1},
		"a read that fails":                             {pod: naming("grey"), err: errors.New("timeout"), protected: true, reads: 1},
		"a malformed annotation":                        {pod: naming("[{"), protected: true, warnings: []string{"annotation " + podnetwork.NetworksAnnotation}},
		"a null in the annotation":                      {pod: naming("[null]"), protected: true, warnings: []string{"element 0 of the list is null"}},
		"host network":                                  {pod: strings.Replace(naming("blue"), `"spec":{`, `"spec":{"hostNetwork":true,`, 1)},
		"opted out":                                     {pod: strings.Replace(naming("blue"), `"annotations":{`, `"annotations":{"holdfast.dev/guard":"off",`, 1)},
		"a mirror pod":                                  {pod: strings.Replace(naming("blue"), `"annotations":{`, `"annotations":{"kubernetes.io/config.mirror":"hash",`, 1)},
		"an excluded namespace":                         {pod: naming("blue"), rules: protection.Rules{ExcludedNamespaces: []string{"apps"}}},
		"every pod, where the administrator says":       {pod: `{"metadata":{"name":"a"},"spec":{}}`, rules: protection.Rules{GuardClusterNetwork: true}, protected: true},
		"many networks are not all read":                {pod: naming(strings.Join(numbered(60), ",")), err: errors.New("timeout"), protected: true, reads: podnetwork.MaxDefinitions},
		"finalizers of others stay":                     {pod: annotated(podnetwork.NetworksAnnotation, "blue", `,"finalizers":["a.example.com/x"]`), protected: true, reads: 1},
		"an empty list of finalizers":                   {pod: annotated(podnetwork.NetworksAnnotation, "blue", `,"finalizers":[],"labels":{}`), protected: true, reads: 1},
		"null for finalizers and labels":                {pod: annotated(podnetwork.NetworksAnnotation, "blue", `,"finalizers":null,"labels":null`), protected: true, reads: 1},
		"labels of others stay":                         {pod: annotated(podnetwork.NetworksAnnotation, "blue", `,"labels":{"app":"web"}`), protected: true, reads: 1},
		"a label of another value":                      {pod: annotated(podnetwork.NetworksAnnotation, "blue", `,"labels":{"holdfast.dev/guarded":"false"}`), protected: true, reads: 1},
		"only the finalizer is there":                   {pod: annotated(podnetwork.NetworksAnnotation, "blue", `,"finalizers":["holdfast.dev/ip-allocation"]`), protected: true, reads: 1},
		"an unguarded network keeps a user's finalizer": {pod: annotated(podnetwork.NetworksAnnotation, "grey", `,"finalizers":["holdfast.dev/ip-allocation"]`), reads: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			reader := newDefinitions()
			reader.err = tc.err
			d := defaulter(t, reader, tc.rules)
			response := d.Handle(t.Context(), creation(tc.pod))
			if !response.Allowed {
				t.Fatalf("refused: %+v", response.Result)
			}
			if reader.reads != tc.reads {
				t.Errorf("read %d definitions, want %d", reader.reads, tc.reads)
			}
			want := apply(t, tc.pod, admission.Response{})
			if tc.protected {
				addProtection(want["metadata"].(map[string]any))
			} else if response.Patch != nil {
				t.Errorf("patched by %s although it is no concern of ours", response.Patch)
			}
			got := apply(t, tc.pod, response)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			checkWarnings(t, response.Warnings, tc.warnings)

			protected, _ := json.Marshal(got)
			if again := d.Handle(t.Context(), creation(string(protected))); again.Patch != nil {
				t.Errorf("the second call patches again: %s", again.Patch)
			}
			dryRun := creation(tc.pod)
			dryRun.DryRun = new(true)
			if diff := cmp.Diff(response, d.Handle(t.Context(), dryRun)); diff != "" {
				t.Errorf("a dry run gets another response (-real +dry):\n%s", diff)
			}
		})
	}
}

func numbered(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	return names
}

// addProtection is what the finalizer is to do, on a decoded object.
func addProtection(metadata map[string]any) {
	finalizers, _ := metadata["finalizers"].([]any)
	found := false
	for _, f := range finalizers {
		found = found || f == "holdfast.dev/ip-allocation"
	}
	if !found {
		metadata["finalizers"] = append(finalizers, "holdfast.dev/ip-allocation")
	}
	labels, _ := metadata["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	labels["holdfast.dev/guarded"] = "true"
	metadata["labels"] = labels
}

func checkWarnings(t *testing.T, got, parts []string) {
	t.Helper()
	if len(got) != len(parts) {
		t.Fatalf("got the warnings %q, want %d that say %q", got, len(parts), parts)
	}
	for i := range parts {
		if !strings.Contains(got[i], parts[i]) {
			t.Errorf("warning %q does not say %q", got[i], parts[i])
		}
	}
}

func TestPodDefaulterLeavesOtherRequestsAlone(t *testing.T) {
	change := func(f func(*admission.Request)) admission.Request { r := creation(naming("blue")); f(&r); return r }
	cases := map[string]admission.Request{
		"an update":        change(func(r *admission.Request) { r.Operation = admissionv1.Update }),
		"a deletion":       change(func(r *admission.Request) { r.Operation = admissionv1.Delete }),
		"a subresource":    change(func(r *admission.Request) { r.SubResource = "binding" }),
		"another resource": change(func(r *admission.Request) { r.Resource.Resource = "configmaps" }),
		"another group":    change(func(r *admission.Request) { r.Resource.Group = "metrics.k8s.io" }),
	}
	for name, request := range cases {
		t.Run(name, func(t *testing.T) {
			response := defaulter(t, newDefinitions(), protection.Rules{}).Handle(t.Context(), request)
			if !response.Allowed || response.Patch != nil {
				t.Errorf("got %+v, want it allowed and unchanged", response)
			}
		})
	}
}

func TestPodDefaulterCouldNotTellAboutWhatItCannotDecode(t *testing.T) {
	for name, raw := range map[string]string{"nothing": "", "broken": "{", "metadata of the wrong type": `{"metadata":[]}`, "a list": "[]"} {
		t.Run(name, func(t *testing.T) {
			response := defaulter(t, newDefinitions(), protection.Rules{}).Handle(t.Context(), creation(raw))
			if response.Allowed || response.Result.Code != http.StatusServiceUnavailable {
				t.Errorf("got %+v, want a failed call", response)
			}
		})
	}
}

func TestWarningsFitTheirHeader(t *testing.T) {
	got := presentable([]string{"two\nlines\x00", strings.Repeat("ä", 300), "bad \xff byte"})
	for i, want := range []string{"holdfast: two lines ", "holdfast: ää", "holdfast: bad   byte"} {
		if !strings.HasPrefix(got[i], want) || len(got[i]) > maxWarningBytes || !utf8.ValidString(got[i]) {
			t.Errorf("got %q, want at most %d bytes of UTF-8 that start with %q", got[i], maxWarningBytes, want)
		}
	}
	if got := presentable(numbered(100)); len(got) != maxWarnings || got[maxWarnings-1] != "holdfast: and 95 more" {
		t.Errorf("got %q, want %d, the last of which counts the rest", got, maxWarnings)
	}
	if got := presentable(numbered(maxWarnings)); len(got) != maxWarnings || got[maxWarnings-1] != "holdfast: n5" {
		t.Errorf("got %q, want all of them", got)
	}
}

func TestNewPodDefaulterNeedsItsParts(t *testing.T) {
	if _, err := NewPodDefaulter(PodOptions{}); err == nil {
		t.Error("without a reader and backends: want an error")
	}
}
