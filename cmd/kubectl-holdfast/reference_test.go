// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/reference/kubectl-holdfast.md instead of comparing it")

const referencePage = "../../docs/reference/kubectl-holdfast.md"

const referenceHead = `# kubectl holdfast

Written from the commands' own help: ` + "`go test ./cmd/kubectl-holdfast -run TestReference -update`" + `.

Put the binary ` + "`kubectl-holdfast`" + ` (` + "`make build`" + `: ` + "`bin/kubectl-holdfast`" + `) into a folder of ` + "`$PATH`" + `; ` + "`kubectl plugin list`" + ` shows it.
For completion, put the output of ` + "`kubectl holdfast completion kubectl`" + ` beside it, or a link of the name ` + "`kubectl_complete-holdfast`" + ` to the binary.

Every command has kubectl's own flags (` + "`kubectl options`" + `: ` + "`--kubeconfig`, `--context`, `--namespace`, `--as`, `--request-timeout`" + ` …).
The flag ` + "`--manager-namespace`" + ` is the namespace of the manager (default ` + "`holdfast-system`" + `).
It reads with your own rights, past every cache, long lists in pages, and shows its progress on stderr.
If you may not read something, the command names the missing right.

Reports are for people (` + "`-o table`, `-o wide`" + `) and for scripts (` + "`-o json`, `-o yaml`" + `: kind and apiVersion ` + "`inspect.holdfast.dev/v1alpha1`" + `; no API server serves them).

| Command | Reads | Writes |
|---|---|---|
| ` + "`explain`" + ` | the pod, its Node, IPAllocations, GuardedNodes, IPPools, events, with agents the admission policies and their bindings; the manager's Deployment and ConfigMap (otherwise it assumes the defaults, and reports that) | nothing |
| ` + "`list`" + ` | IPAllocations | nothing |
| ` + "`who`, `history`" + ` | IPPools, IPAllocations, pods, events | nothing; ` + "`--html`" + ` a file |
| ` + "`audit`" + ` | namespace kube-system, IPPools, pods, IPAllocations, nodes, NodeResourcePolicies, reservations, NodeSlicePools, NetworkAttachmentDefinitions | nothing; ` + "`--report`" + ` a file |
| ` + "`release`" + ` | as explain and who, and the AllNodesQuery; with ` + "`--from-report`" + ` as audit, and the manager's Deployment and ConfigMap, without which it refuses | an event, an annotation of the IPAllocation, the IPPool, the reservation |
| ` + "`unhold`" + ` | the pod, its IPAllocation, IPPools, reservations | an event, the IPPool, the reservation, the pod |
| ` + "`doctor`" + ` | the installation, webhooks, EndpointSlices, the serving Secret, Certificates and Issuers, nodes, events; creates SubjectAccessReviews; two dry runs | nothing |
| ` + "`uninstall`" + ` | everything, as an administrator | see [uninstall](../uninstall.md) |

What the plugin cannot see: a manager that has watched since before a deletion may have observed that a pod was being deleted and had not terminated, or that an entry appeared after the pod was bound.
With the former, a kubelet's report counts even if the pod is older than the admission policies.
Both can only let the manager release where ` + "`explain`" + ` says wait.
And a manager's caches may be behind by a moment.

`

// reference is the page, from the commands' own help.
func reference() string {
	root := newCommand(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
	var page strings.Builder
	page.WriteString(referenceHead)
	fmt.Fprintf(&page, "## Exit codes\n\n```text\n%s\n```\n", exitCodes)
	for _, command := range root.Commands() {
		if command.Name() != "completion" && !command.Hidden {
			describe(&page, command)
		}
	}
	return page.String()
}

func describe(page *strings.Builder, command *cobra.Command) {
	long := command.Long
	if long == "" {
		long = command.Short + "."
	}
	use := command.Use
	if command.Flags().HasFlags() && !strings.Contains(use, "[flags]") {
		use += " [flags]"
	}
	fmt.Fprintf(page, "\n## kubectl holdfast %s\n\n```text\nkubectl holdfast %s\n```\n\n```text\n%s\n```\n", command.Name(), use, long)
	if len(command.Aliases) > 0 {
		fmt.Fprintf(page, "\nAlso `kubectl holdfast %s`.\n", strings.Join(command.Aliases, "`, `kubectl holdfast "))
	}
	var flags []string
	command.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		text := fmt.Sprintf("| `%s` | %s |", strings.ReplaceAll(name, "|", "\\|"), strings.ReplaceAll(usage, "|", "\\|"))
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
			text = fmt.Sprintf("| `%s` | %s (default `%s`) |", strings.ReplaceAll(name, "|", "\\|"), strings.ReplaceAll(usage, "|", "\\|"), f.DefValue)
		}
		flags = append(flags, text)
	})
	if len(flags) > 0 {
		fmt.Fprintf(page, "\n| Flag | |\n|---|---|\n%s\n", strings.Join(flags, "\n"))
	}
	fmt.Fprintf(page, "\n```sh\n%s\n```\n", undent(command.Example))
}

func undent(example string) string {
	lines := strings.Split(example, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}

func TestReference(t *testing.T) {
	if *update {
		if err := os.WriteFile(referencePage, []byte(reference()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(page), reference()); diff != "" {
		t.Errorf("docs/reference/kubectl-holdfast.md is not what the commands say; write it with -update (-page +commands):\n%s", diff)
	}
}
