// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	webhookadmissionv1 "k8s.io/apiserver/pkg/admission/plugin/webhook/config/apis/webhookadmission/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

const (
	root          = "../.."
	samplesFolder = "config/samples"
)

var scheme = runtime.NewScheme()

func init() {
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, certmanagerv1.AddToScheme, nadv1.AddToScheme, v1alpha1.AddToScheme,
		apiserverv1.AddToScheme, webhookadmissionv1.AddToScheme, clientcmdv1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "security.openshift.io", Version: "v1", Kind: "SecurityContextConstraints"},
		&securityContextConstraints{})
}

// read is the text of a file of the repository.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// below lists the files of a folder of the repository, and of all folders below it, whose names end so.
func below(t *testing.T, folder, suffix string) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(os.DirFS(root), folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, suffix) {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("no file below %s ends with %s: %v", folder, suffix, err)
	}
	return found
}

// render builds a kustomization of the repository and decodes what comes of it.
func render(t *testing.T, folder string) []runtime.Object {
	t.Helper()
	rendered, err := process.Output(t.Context(), root, "go", "tool", "-modfile=hack/tools/kustomize/go.mod", "kustomize", "build", folder)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, folder, rendered)
}

// decode reads every document into the Go type of its kind. An unknown field or kind is an error.
func decode(t *testing.T, source, text string) []runtime.Object {
	t.Helper()
	var objects []runtime.Object
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		object, _, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			t.Errorf("%s: %v in\n%s", source, err, document)
			continue
		}
		objects = append(objects, object)
	}
	return objects
}

// of are the objects of one type, by name.
func of[T interface {
	runtime.Object
	GetName() string
}](objects []runtime.Object) map[string]T {
	found := map[string]T{}
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found[typed.GetName()] = typed
		}
	}
	return found
}
