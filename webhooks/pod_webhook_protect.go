// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"gomodules.xyz/jsonpatch/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
)

const (
	// The API server cuts warnings short where they are more than 4,096 characters in all
	// (k8s.io/apiserver pkg/endpoints/filters/warning.go); this is less, and leaves something to others.
	maxWarnings     = 6
	maxWarningBytes = 500
)

// labelPath is where the label stands in a pod, as a JSON pointer.
var labelPath = "/metadata/labels/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(v1alpha1.GuardedLabel)

// The operations of the patch, encoded once for all pods. "add" puts a list or a map in the place of one that is absent or empty.
var (
	firstFinalizer = operation("/metadata/finalizers", []string{v1alpha1.Finalizer})
	oneMore        = operation("/metadata/finalizers/-", v1alpha1.Finalizer)
	firstLabel     = operation("/metadata/labels", map[string]string{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue})
	oneLabel       = operation(labelPath, v1alpha1.GuardedLabelValue)
)

func operation(path string, value any) string {
	add := jsonpatch.NewOperation("add", path, value)
	encoded, err := add.MarshalJSON()
	utilruntime.Must(err) // constants
	return string(encoded)
}

// protect is the JSON patch that puts finalizer and label on a pod; none where both are there. It adds to a list or a map that
// exists and touches nothing else, so that the entries of others and fields that we do not know stay.
func protect(meta *metav1.ObjectMeta) []byte {
	var operations []string
	switch {
	case len(meta.Finalizers) == 0:
		operations = append(operations, firstFinalizer)
	case !slices.Contains(meta.Finalizers, v1alpha1.Finalizer):
		operations = append(operations, oneMore)
	}
	switch {
	case len(meta.Labels) == 0:
		operations = append(operations, firstLabel)
	case meta.Labels[v1alpha1.GuardedLabel] != v1alpha1.GuardedLabelValue:
		operations = append(operations, oneLabel)
	}
	if len(operations) == 0 {
		return nil
	}
	return []byte("[" + strings.Join(operations, ",") + "]")
}

// presentable makes messages fit for the HTTP header of warnings: few, short, in one line.
func presentable(messages []string) []string {
	if more := len(messages) - maxWarnings + 1; more > 1 {
		messages = append(slices.Clone(messages[:maxWarnings-1]), fmt.Sprintf("and %d more", more))
	}
	presented := make([]string, 0, len(messages))
	for _, message := range messages {
		presented = append(presented, eventlimit.Clip(strings.Map(printable, "holdfast: "+message), maxWarningBytes, "..."))
	}
	return presented
}

func printable(r rune) rune {
	if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
		return ' '
	}
	return r
}
