// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = suite.Describe("Where kubelet and controllers are one program (docs/decisions/0283),", func() {
	It("they write the status under one name, and nothing else does", func(ctx context.Context) {
		for _, manager := range []string{"k3s", "kubelite"} {
			pod := newPod(ctx)
			write := func(c client.Client, patch string) error {
				return patchPod(ctx, c, pod, inStatus, patch, client.FieldOwner(manager))
			}
			Expect(write(kubelet, `{"status":{"phase":"Running","conditions":[{"type":"ContainersReady","status":"True"}]}}`)).To(Succeed())
			Expect(write(user, `{"status":{"phase":"Failed"}}`)).To(outcome(kubeletReports, noReport))
			Expect(write(user, `{"status":{"conditions":[{"type":"ContainersReady","status":"False","reason":"PodFailed"}]}}`)).To(outcome(kubeletReports, noReport))
			Expect(patchPod(ctx, user, pod, itself, `{"metadata":{"annotations":{"a":"b"}}}`, client.FieldOwner(manager))).To(Succeed())
			Expect(write(podGC, `{"status":{"phase":"Failed"}}`)).To(Succeed())
			Expect(write(user, `{"status":{"message":"x"}}`)).To(outcome(kubeletReports, noReport))
			Expect(write(kubelet, `{"status":{"conditions":[{"type":"ContainersReady","status":"False","reason":"PodFailed"}]}}`)).To(Succeed())
		}
	}, SpecTimeout(soon))

	It("a controller may not write under the name of a kubelet that is a program of its own", func(ctx context.Context) {
		Expect(patchPod(ctx, podGC, reported(ctx), inStatus, `{"status":{"phase":"Failed"}}`, client.FieldOwner("kubelet"))).To(outcome(kubeletReports, noReport))
	}, SpecTimeout(soon))
})
