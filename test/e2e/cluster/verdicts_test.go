// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"

	"github.com/holdfast-dev/holdfast/internal/testing/versioned"
	"github.com/holdfast-dev/holdfast/test/e2e/observer"
)

// unguarded is the container of the specs that show the harm.
const unguarded = "without Holdfast"

// judged is what is known of a world when its last pod is gone.
type judged struct {
	// verdict is nil where the nodes could not be observed.
	verdict *observer.Verdict
	// left is how many entries the pools have, which no pod has.
	left int
}

func (j judged) String() string {
	text := fmt.Sprintf("%d entries left", j.left)
	if j.verdict != nil {
		text += "\n" + j.verdict.String()
	}
	return text
}

const verdicts = "verdict"

// One line per spec as it ends, and all verdicts in a table in the end. hack/gotest shows lines that begin in these two ways.
var (
	_ = ReportBeforeSuite(func(report Report) {
		counts := report.PreRunStats
		if left := counts.TotalSpecs - counts.SpecsThatWillRun; left > 0 {
			fmt.Printf("\n%d specs exempt from a run of those labeled %q\n", left, report.SuiteConfig.LabelFilter)
		}
		fmt.Printf("\n==> %d specs\n", counts.SpecsThatWillRun)
	})
	_ = ReportAfterEach(func(spec SpecReport) {
		if !spec.State.Is(types.SpecStateSkipped | types.SpecStatePending) {
			fmt.Printf("\n==> %s after %.0f s: %s\n", spec.State, spec.RunTime.Seconds(), nameOf(spec))
		}
	})
	_ = ReportAfterSuite("verdicts", func(report Report) {
		fmt.Print("\n" + table(report.SpecReports))
		if left := leftOut(report.SpecReports); left > 0 {
			fmt.Printf("\n==> left out: %d specs, %s, or where whereabouts' entries have no interface: what comes of it; the API server is Kubernetes %s\n",
				left, versioned.Why(server), server)
		}
	})
)

// leftOut is how many of the chosen specs the cluster cannot show. hack/gotest counts them by the line that says so.
func leftOut(specs types.SpecReports) int {
	GinkgoHelper()
	matches := types.MustParseLabelFilter(unshown)
	if chosen != "" {
		matches = types.MustParseLabelFilter("(" + chosen + ") && " + unshown)
	}
	var left int
	for _, spec := range specs {
		if spec.LeafNodeType.Is(types.NodeTypeIt) && matches(spec.Labels()) {
			left++
		}
	}
	return left
}

// nameOf is a spec's text with the container that reports whether the guard is there.
func nameOf(spec SpecReport) string {
	return strings.Join(append(slices.Clone(spec.ContainerHierarchyTexts[min(1, len(spec.ContainerHierarchyTexts)):]), spec.LeafNodeText), ": ")
}

// table has a row for each verdict. "Wire" counts the addresses that two machines claimed on the segment, "closing" the hand-overs
// beside a sandbox whose processes had ended, and "left" the entries of the IPAM that no pod has.
func table(specs types.SpecReports) string {
	var text strings.Builder
	rows := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	row := func(cells ...any) {
		for _, cell := range cells[:len(cells)-1] {
			fmt.Fprintf(rows, "| %v\t", cell)
		}
		fmt.Fprintf(rows, "| %v\n", cells[len(cells)-1])
	}
	row("guard", "ended", "after", "looks", "longest gap", "sandboxes", "addresses", "duplicates", "wire", "closing", "left", "spec")
	for _, spec := range specs {
		for _, entry := range spec.ReportEntries {
			found, ok := entry.GetRawValue().(judged)
			if entry.Name != verdicts || !ok {
				continue
			}
			guard := "on"
			if slices.Contains(spec.ContainerHierarchyTexts, unguarded) {
				guard = "off"
			}
			head, after := []any{guard, spec.State, spec.RunTime.Round(time.Second)}, []any{found.left, spec.LeafNodeText}
			row(slices.Concat(head, found.seen(), after)...)
		}
	}
	if err := rows.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "printing the table:", err)
	}
	return text.String()
}

// seen are the observer's cells of a row.
func (j judged) seen() []any {
	v := j.verdict
	if v == nil {
		return slices.Repeat([]any{"-"}, 7)
	}
	return []any{v.Looks, v.LongestGap.Round(time.Millisecond), v.Sandboxes, v.Addresses, len(v.Duplicates), len(v.OnTheWire), v.Closing}
}
