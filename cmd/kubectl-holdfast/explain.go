// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/collect"
	"github.com/holdfast-dev/holdfast/internal/inspect/explain"
	"github.com/holdfast-dev/holdfast/internal/ipam"
)

func (o *options) newExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain (pod/NAME | UID | ipa/NAME)",
		Short: "Say why a pod's addresses are held, since when, and what would end it",
		Long: `Explain reads everything that a release of the pod's addresses rests on, live and with your
rights, and asks the decision table that the manager asks. It says which row decided and why,
for the pod and for each sandbox, since when the manager says so, what would end the wait (the
table is asked again about each change that could come), and the evidence.

A pod that is gone is found by its UID, by the name of its record (kubectl get ipa), or by its
name as long as a record remembers it; then every UID of that name is explained. Without Holdfast
it says so, and what the table would say.`,
		Example: `  # Why is it Terminating?
  kubectl holdfast explain pod/web-1 -n apps

  # A pod that is gone, by its UID or by its record
  kubectl holdfast explain 0f9c8f2e-6f0c-4b7e-9a56-0d1f6d6c2a11
  kubectl holdfast explain ipa/orphan-4fe2c1d0b3a5

  # The reason alone, in a script; exit code 2 says that it is held
  kubectl holdfast explain pod/web-1 -o json | jq -r '.items[0].decision.reason'`,
		Args:              cobra.ExactArgs(1),
		PreRunE:           o.checkOutput,
		ValidArgsFunction: o.completePods,
		RunE:              o.reporting(o.explain),
	}
	o.addOutput(cmd)
	return cmd
}

// explanations are those of every UID that an argument names.
type explanations struct {
	metav1.TypeMeta `json:",inline"`
	Items           []*explain.Explanation `json:"items"`
}

func (e *explanations) Tables(now time.Time) []inspect.Table {
	var all []inspect.Table
	for _, item := range e.Items {
		all = append(all, item.Tables(now)...)
	}
	return all
}

func (e *explanations) Attention() bool {
	for _, item := range e.Items {
		if item.Attention() {
			return true
		}
	}
	return false
}

func (o *options) explain(ctx context.Context, c *collect.Cluster, args []string) (inspect.Report, error) {
	facts, err := o.explainFacts(ctx, c, args[0])
	if err != nil {
		return nil, err
	}
	found := &explanations{TypeMeta: inspect.Type("ExplanationList"), Items: []*explain.Explanation{}}
	for _, f := range facts {
		found.Items = append(found.Items, explain.Explain(f, o.now()))
	}
	return found, nil
}

// uidForm is the form of the UIDs that API servers give (RFC 9562).
var uidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func (o *options) explainFacts(ctx context.Context, c *collect.Cluster, argument string) ([]*explain.Facts, error) {
	kind, name, typed := strings.Cut(argument, "/")
	switch {
	case !typed && (uidForm.MatchString(argument) || strings.HasPrefix(argument, v1alpha1.OrphanPrefix)):
		kind, name = "ipa", argument
	case !typed:
		kind, name = "pod", argument
	}
	switch kind {
	case "pod", "pods", "po":
		namespace, err := o.namespace()
		if err != nil {
			return nil, err
		}
		return c.ExplainPod(ctx, ipam.PodRef{Namespace: namespace, Name: name})
	case "ipa", "ipallocation", "ipallocations", "ipallocations.holdfast.dev":
		f, err := c.ExplainRecord(ctx, name)
		return []*explain.Facts{f}, err
	}
	return nil, fmt.Errorf("%q is neither a pod (pod/NAME), a pod's UID nor a record (ipa/NAME)", argument)
}

// completePods offers the guarded pods of the namespace.
func (o *options) completePods(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := o.open()
	namespace, namespaceErr := o.namespace()
	if err != nil || namespaceErr != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	err = c.Pods(cmd.Context(), func(pod *corev1.Pod) { names = append(names, "pod/"+pod.Name) },
		client.InNamespace(namespace), client.MatchingLabels{v1alpha1.GuardedLabel: v1alpha1.GuardedLabelValue})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
