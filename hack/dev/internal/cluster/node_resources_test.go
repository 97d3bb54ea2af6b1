// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The simulated nodes run the init container of the samples: they know the command,
// and the variable with the node's name.
func TestTheSamplesInitContainerIsOneThatSimNodeNodesRun(t *testing.T) {
	root, err := FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "azure-cns"}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "cns", Image: "cns"}}
	if err := addWait(set, filepath.Join(root, "config", "samples", "node-resources", "wait-init-container.yaml")); err != nil {
		t.Fatal(err)
	}
	spec := set.Spec.Template.Spec
	if len(spec.InitContainers) != 1 || len(spec.Containers) != 1 {
		t.Fatalf("%d init containers and %d containers, want one each", len(spec.InitContainers), len(spec.Containers))
	}
	wait := spec.InitContainers[0]
	if diff := cmp.Diff([]string{"/manager"}, wait.Command); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	if !slices.Contains(wait.Args, "--node=$(NODE_NAME)") || !slices.Contains(wait.Args, "--policy=nodenetworkconfigs") {
		t.Errorf("arguments %q", wait.Args)
	}
	if err := addWait(set, filepath.Join(root, "no-such-file.yaml")); err == nil {
		t.Error("a patch that is not there is no error")
	}
}
