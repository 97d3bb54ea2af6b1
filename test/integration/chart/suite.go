// SPDX-License-Identifier: Apache-2.0

// Package chart installs, upgrades and uninstalls the Helm chart with the real helm on a real control plane. Nodes have no
// kubelet: the pod of the hook is run by the suite, as the real command, with the real token of the pod's own account.
package chart

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/test/fixture"
)

// specTimeout bounds a spec with two uninstallations.
const specTimeout = 5 * time.Minute

var plane, admin = fixture.Plane, fixture.Admin

// The chart brings its definitions, so that there are to be none.
var suite = fixture.NewSuite("chart", fixture.PlaneOne, func(ctx context.Context) {
	for _, name := range []string{"allnodesqueries.holdfast.dev", "guardednodes.holdfast.dev", "ipallocations.holdfast.dev", "noderesourcepolicies.holdfast.dev"} {
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		Expect(admin.Delete(ctx, definition)).To(Succeed())
		Eventually(ctx, func() error { return admin.Get(ctx, client.ObjectKeyFromObject(definition), definition) }).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	}
})

// helm runs it on the control plane, in the namespace of the release, and gives all that it printed.
func helm(args ...string) (string, error) {
	GinkgoHelper()
	home := GinkgoT().TempDir()
	if slices.Contains(args, chart) && strings.HasPrefix(chart, "oci://") {
		args = append(args, "--plain-http")
	}
	command := exec.Command(fixture.Tool("helm"), append(args, "--namespace="+own, "--kubeconfig="+plane.Kubeconfig())...)
	command.Dir = fixture.Path()
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := command.CombinedOutput()
	GinkgoWriter.Printf("helm %s\n%s\n", strings.Join(args, " "), out)
	return string(out), err
}
