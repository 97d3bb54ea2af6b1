// SPDX-License-Identifier: Apache-2.0

package seeing

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	_ "sigs.k8s.io/controller-runtime/pkg/controller" // registers its metrics
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/holdfast-dev/holdfast/internal/metrics"
)

// The places of what is compared, from this package.
const (
	root       = "../.."
	apiFolder  = root + "/api/v1alpha1"
	metricsDir = root + "/internal/metrics"
)

// goFiles are the parsed files of a package without its tests.
func goFiles(t *testing.T, folder string) []*ast.File {
	t.Helper()
	return parsed(t, folder, parser.SkipObjectResolution)
}

// goFilesWithComments are the same with what their comments say.
func goFilesWithComments(t *testing.T, folder string) []*ast.File {
	t.Helper()
	return parsed(t, folder, parser.SkipObjectResolution|parser.ParseComments)
}

func parsed(t *testing.T, folder string, mode parser.Mode) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, mode)
		if err != nil {
			t.Fatalf("parsing %s: %v", name, err)
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		t.Fatalf("no Go file in %s: the test looks in the wrong place", folder)
	}
	return files
}

// reasons are the values of every constant of type Reason of the API.
func reasons(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, file := range goFiles(t, apiFolder) {
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Reason" {
				return true
			}
			for _, value := range spec.Values {
				found = append(found, literal(t, value))
			}
			return true
		})
	}
	if !slices.Contains(found, "KubeletNotFinished") {
		t.Fatal("the reasons of api/v1alpha1 were not found: their form has changed")
	}
	slices.Sort(found)
	return found
}

func literal(t *testing.T, expr ast.Expr) string {
	t.Helper()
	basic, ok := expr.(*ast.BasicLit)
	if !ok {
		t.Fatalf("expected a string where there is %T", expr)
	}
	text, err := strconv.Unquote(basic.Value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// metric is one that the binaries expose.
type metric struct {
	// kind is counter, gauge or histogram; empty for those of libraries.
	kind, help string
	labels     []string
}

// descriptor is the form in which client_golang prints a description, which has no getters.
var descriptor = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), (?:unit: "[^"]*", )?constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}\}$`)

// exposed are all metrics that are registered where the manager and the agent serve theirs, by name, those of
// controller-runtime included.
func exposed(t *testing.T) map[string]metric {
	t.Helper()
	registry, ok := ctrlmetrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatalf("controller-runtime's registry, %T, does not describe itself any more", ctrlmetrics.Registry)
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		registry.Describe(descs)
	}()
	kinds, found := metricKinds(t), map[string]metric{}
	for desc := range descs {
		parts := descriptor.FindStringSubmatch(desc.String())
		if parts == nil {
			continue // a runtime metric with constant labels
		}
		name, help := unquote(t, parts[1]), unquote(t, parts[2])
		labels := strings.FieldsFunc(parts[3], func(r rune) bool { return r == ',' })
		found[name] = metric{kind: kinds[name], help: help, labels: labels}
	}
	for name := range kinds {
		if _, ok := found[name]; !ok {
			t.Errorf("%s is made in internal/metrics and not registered", name)
		}
	}
	return found
}

func unquote(t *testing.T, text string) string {
	t.Helper()
	plain, err := strconv.Unquote(text)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// ours are the metrics of internal/metrics.
func ours(t *testing.T) map[string]metric {
	t.Helper()
	found := exposed(t)
	for name, m := range found {
		if !strings.HasPrefix(name, metrics.Prefix) {
			delete(found, name)
			continue
		}
		if m.kind == "" {
			t.Errorf("%s is registered and not made by a constructor of internal/metrics", name)
		}
	}
	if len(found) < 20 {
		t.Fatalf("%d metrics of ours: the test looks in the wrong place", len(found))
	}
	return found
}

// constructors are the functions of internal/metrics that make a metric, with its kind.
var constructors = map[string]string{
	"counter": "counter", "counters": "counter", "gauge": "gauge", "gauges": "gauge", "gaugesAtScrape": "gauge", "histogram": "histogram", "histograms": "histogram",
}

// metricKinds reads from the source what a description does not have.
func metricKinds(t *testing.T) map[string]string {
	t.Helper()
	kinds := map[string]string{}
	for _, file := range goFiles(t, metricsDir) {
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, ok := call.Fun.(*ast.Ident)
			if !ok || constructors[name.Name] == "" {
				return true
			}
			if _, isName := call.Args[0].(*ast.BasicLit); isName {
				kinds[metrics.Prefix+literal(t, call.Args[0])] = constructors[name.Name]
			}
			return true
		})
	}
	return kinds
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
