// SPDX-License-Identifier: Apache-2.0

package seeing

import (
	"fmt"
	"go/ast"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

const configurationTypes = root + "/api/config/v1alpha1"

// The table of a page stands between these lines, which do not show.
const (
	tableBegins = "<!-- Written from the code: go test ./test/seeing -run TestConfigurationReference -update -->\n\n"
	tableEnds   = "\n<!-- The end of what is written from the code. -->\n"
	tableHead   = "| Field | Default | Meaning |\n| --- | --- | --- |\n"
)

// TestConfigurationReference keeps the tables of the configuration pages what the types' comments and the defaulting functions say.
func TestConfigurationReference(t *testing.T) {
	manager, agent := &configv1alpha1.ManagerConfiguration{}, &configv1alpha1.AgentConfiguration{}
	configv1alpha1.SetDefaults(manager)
	configv1alpha1.SetAgentDefaults(agent)
	comments := fieldComments(t)
	for page, configuration := range map[string]any{"configuration.md": manager, "agent-configuration.md": agent} {
		t.Run(page, func(t *testing.T) {
			path := root + "/docs/reference/" + page
			text := read(t, path)
			before, rest, begins := strings.Cut(text, tableBegins)
			_, after, ends := strings.Cut(rest, tableEnds)
			if !begins || !ends {
				t.Fatalf("%s has no place for the table, between %q and %q", path, tableBegins, tableEnds)
			}
			want := before + tableBegins + tableHead + strings.Join(configurationRows(t, comments, reflect.ValueOf(configuration).Elem(), ""), "") + tableEnds + after
			if *update {
				if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
					t.Fatal(err)
				}
				text = want
			}
			if diff := cmp.Diff(want, text); diff != "" {
				t.Errorf("%s is not what the code says; run go test ./test/seeing -run TestConfigurationReference -update (-code +file):\n%s", path, diff)
			}
		})
	}
}

// fieldComments are the comments of all fields of the package, by type and field.
func fieldComments(t *testing.T) map[string]map[string]string {
	t.Helper()
	comments := map[string]map[string]string{}
	for _, file := range goFilesWithComments(t, configurationTypes) {
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.TypeSpec)
			if !ok {
				return true
			}
			structure, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			comments[spec.Name.Name] = map[string]string{}
			for _, field := range structure.Fields.List {
				for _, name := range field.Names {
					comments[spec.Name.Name][name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
				}
			}
			return true
		})
	}
	return comments
}

// configurationRows are those of a structure and of all below it, in the order of the types.
func configurationRows(t *testing.T, comments map[string]map[string]string, structure reflect.Value, prefix string) []string {
	t.Helper()
	var rows []string
	for i := range structure.NumField() {
		field, value := structure.Type().Field(i), structure.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" { // apiVersion and kind
			continue
		}
		if value.Kind() == reflect.Struct {
			rows = append(rows, configurationRows(t, comments, value, prefix+name+".")...)
			continue
		}
		comment := comments[structure.Type().Name()][field.Name]
		if comment == "" {
			t.Errorf("%s.%s has no comment that explains %s%s", structure.Type().Name(), field.Name, prefix, name)
		}
		fallback := defaultText(t, value)
		rows = append(rows, fmt.Sprintf("| `%s%s` | %s | %s |\n", prefix, name, fallback, meaning(comment, fallback, structure.Type(), field.Name)))
	}
	return rows
}

// defaultText is how a default is written in the file.
func defaultText(t *testing.T, value reflect.Value) string {
	t.Helper()
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return "none"
		}
		if duration, ok := value.Interface().(*metav1.Duration); ok {
			return "`" + durationText(duration.Duration.String()) + "`"
		}
		value = value.Elem()
	}
	switch value.Kind() {
	case reflect.String, reflect.Slice:
		if value.Len() == 0 {
			return "none"
		}
		return fmt.Sprintf("`%v`", value.Interface())
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64:
		return fmt.Sprintf("`%v`", value.Interface())
	default:
		t.Fatalf("a field of type %s has no form here: teach this test", value.Type())
		return ""
	}
}

var emptyUnits = regexp.MustCompile(`([hm])0[ms](?:0s)?$`)

// durationText leaves out what is zero: 3m0s is 3m.
func durationText(text string) string { return emptyUnits.ReplaceAllString(text, "$1") }

var saysDefault = regexp.MustCompile(` ?Default: ("[^"]*"|[^ ;:]+|:[0-9]+)\.(?: |$)`)

// meaning is a field's comment for the author of the file: fields under their names in it, and without the default that stands beside
// it. A default that does not fit stays, and shows.
func meaning(comment, fallback string, structure reflect.Type, own string) string {
	text := saysDefault.ReplaceAllStringFunc(comment, func(found string) string {
		said := strings.Trim(saysDefault.FindStringSubmatch(found)[1], `"`)
		if said != strings.Trim(fallback, "`[]") {
			return found
		}
		return " "
	})
	for i := range structure.NumField() {
		field := structure.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if rest, begins := strings.CutPrefix(text, field.Name+" "); begins && field.Name == own {
			text = "`" + name + "` " + rest
		}
		if field.Name != own { // further down its own name may be a plain word: DaemonSets are DaemonSets
			text = regexp.MustCompile(`\b`+field.Name+`\b`).ReplaceAllString(text, "`"+name+"`")
		}
	}
	return strings.ReplaceAll(strings.TrimSpace(text), "|", `\|`)
}

func TestHowDefaultsAreWritten(t *testing.T) {
	for given, want := range map[string]string{"3m0s": "3m", "1h0m0s": "1h", "1h30m0s": "1h30m", "10s": "10s", "1m30s": "1m30s", "100ms": "100ms", "0s": "0s"} {
		if got := durationText(given); got != want {
			t.Errorf("%s: got %s, expected %s", given, got, want)
		}
	}
	structure := reflect.TypeFor[configv1alpha1.Delays]()
	for comment, want := range map[string]string{
		"ReleaseDelay is long. Default: 3m.":                  "`releaseDelay` is long.",
		"ReleaseDelay is long. Default: 3m. It is not short.": "`releaseDelay` is long. It is not short.",
		"It is. Default: 5m.":                                 "It is. Default: 5m.",
		"A | b, as NodeGoneDelay.":                            "A \\| b, as `nodeGoneDelay`.",
		"ReleaseDelay is the ReleaseDelay of NodeGoneDelay.":  "`releaseDelay` is the ReleaseDelay of `nodeGoneDelay`.",
	} {
		if got := meaning(comment, "`3m`", structure, "ReleaseDelay"); got != want {
			t.Errorf("%q: got %q, expected %q", comment, got, want)
		}
	}
	if got := meaning(`X. Default: ":8443".`, "`:8443`", structure, "X"); got != "X." {
		t.Errorf("got %q", got)
	}
}
