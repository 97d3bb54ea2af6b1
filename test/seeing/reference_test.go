// SPDX-License-Identifier: Apache-2.0

package seeing

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

const reference = root + "/docs/reference/metrics.md"

const referenceHead = `# Metrics

Written from the code: ` + "`go test ./test/seeing -run TestReference -update`" + `.

The manager and the agents serve these at ` + "`/metrics`" + `, beside those of controller-runtime and of Go. Both have all of them; what one does not
measure stays zero there, or has no series. Where only the leader reports, the other replicas say zero: take the ` + "`max`" + `. No metric has the name of a pod or of a
node; ` + "`instance`" + ` distinguishes the agents. A series with labels begins with its first event, so that ` + "`increase`" + ` does not count that one.

What to alert on: [config/prometheus/rules.yaml](../../config/prometheus/rules.yaml), and [the runbook](../runbook/README.md). The values of ` + "`reason`, `kind`" + ` and most of
` + "`result`" + ` are [reasons](../runbook/reasons/README.md).

| Metric | Type | Labels | Meaning |
| --- | --- | --- | --- |
`

func TestReference(t *testing.T) {
	all := ours(t)
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m, labels := all[name], make([]string, 0, 4)
		for _, label := range m.labels {
			labels = append(labels, "`"+label+"`")
		}
		fmt.Fprintf(&b, "| <a id=\"%s\"></a>`%s` | %s | %s | %s |\n", name, name, m.kind, strings.Join(labels, ", "), m.help)
	}
	if *update {
		if err := os.WriteFile(reference, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(b.String(), read(t, reference)); diff != "" {
		t.Errorf("docs/reference/metrics.md is not what the code says; run go test ./test/seeing -run TestReference -update (-code +file):\n%s", diff)
	}
}
