// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = "# A page\n\n```\nkubectl get ipa   # the records\nkubectl get pods\n```\n\nIt prints:\n\n```text\nNAME   AGE\nweb    12s\n```\n\n" +
	"```text\nno output of a command\n```\n\n```yaml\nkind: Pod\n```\n\n```sh\n# nothing but a remark\nkubectl get nodes\n```\n\n## Another heading\n\n```text\nnor this\n```\n"

func TestSteps(t *testing.T) {
	want := []Step{{4, "kubectl get ipa", ""}, {5, "kubectl get pods", "NAME   AGE\nweb    12s\n"}, {25, "kubectl get nodes", ""}}
	if diff := cmp.Diff(want, Steps(page)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestACommandOfSeveralLinesIsOne(t *testing.T) {
	for _, command := range []string{
		"helm install holdfast \\\n--set a=b", "kubectl get pods |\ngrep web", "kubectl patch -p '{\n}' || true", "echo \"it's\nthe end\"",
		"while\ntest -n \"$a\"\ndo\necho | while read -r b; do\ntrue\ndone\nsleep 2\ndone", "for a in b c; do\necho $a --for=d\ndone",
	} {
		want := []Step{{2, command, ""}, {3 + strings.Count(command, "\n"), "kubectl wait --for=delete", ""}}
		if diff := cmp.Diff(want, Steps("```\n"+command+"\nkubectl wait --for=delete   # it's soon\n```\n")); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestNormal(t *testing.T) {
	for text, want := range map[string]string{
		"0f0f3e52-8baa-44c6-b47e-93af8bca8142   InUse            14s":           "UID InUse AGE",
		"since 2026-11-24T16:07:43Z for 2m30s":                                  "since TIME for AGE",
		"orphan-0000000000000 ":                                                 "orphan-SANDBOX",
		"192.0.2.1 of 3 nodes":                                                  "192.0.2.1 of 3 nodes",
		"535522e265afa9b8309cfa7fd88c6bc6407ac7d58ff1f198ba24a73ae6cc2311 gone": "SANDBOX gone",
	} {
		if got := Normal(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
