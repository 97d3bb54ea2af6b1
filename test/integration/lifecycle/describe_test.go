// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// describeFailure is describeCluster for a spec that has failed.
func describeFailure(ctx context.Context) {
	if CurrentSpecReport().Failed() {
		describeCluster(ctx)
	}
}

// describeCluster writes down, for the report of a failed spec, what is left of it.
func describeCluster(ctx context.Context) {
	for _, list := range []client.ObjectList{&corev1.PodList{}, &v1alpha1.IPAllocationList{}, &wbv1alpha1.IPPoolList{}} {
		if err := admin.List(ctx, list); err != nil {
			GinkgoWriter.Println(err)
			continue
		}
		text, err := json.Marshal(list)
		GinkgoWriter.Printf("%T: %s %v\n", list, text, err)
	}
}
