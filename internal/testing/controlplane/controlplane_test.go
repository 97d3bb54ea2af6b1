// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-dev/holdfast/internal/testing/controlplane"
)

var (
	createOptions metav1.CreateOptions
	deleteOptions metav1.DeleteOptions
	getOptions    metav1.GetOptions
	listOptions   metav1.ListOptions
)

// heartbeat reports a Node Ready, as its kubelet would, with room for pods.
func heartbeat(ctx context.Context, node string) error {
	now := metav1.Now()
	patch, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")},
		Capacity:    corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")},
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Spec", LastHeartbeatTime: now,
		}},
	}})
	if err != nil {
		return err
	}
	_, err = clientset.CoreV1().Nodes().PatchStatus(ctx, node, patch)
	return err
}

// whoAmI is what the API server, and so every webhook, sees of a client.
func whoAmI(ctx context.Context, config *rest.Config) authenticationv1.UserInfo {
	GinkgoHelper()
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, createOptions)
	Expect(err).NotTo(HaveOccurred())
	return review.Status.UserInfo
}

var _ = Describe("The controllers", func() {
	It("run StatefulSets, and collect the pods of a deleted one", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		labels := map[string]string{"app": "web"}
		set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{
			Replicas:            new(int32(2)),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:            &metav1.LabelSelector{MatchLabels: labels},
			Template:            corev1.PodTemplateSpec{Spec: pod("").Spec},
		}}
		set.Name, set.Spec.Template.Labels = "web", labels
		_, err := clientset.AppsV1().StatefulSets(namespace).Create(ctx, set, createOptions)
		Expect(err).NotTo(HaveOccurred())

		names := func() ([]string, error) {
			pods, err := clientset.CoreV1().Pods(namespace).List(ctx, listOptions)
			names := make([]string, len(pods.Items))
			for i := range pods.Items {
				names[i] = pods.Items[i].Name
			}
			return names, err
		}
		Eventually(names).Should(ConsistOf("web-0", "web-1"))
		Expect(clientset.AppsV1().StatefulSets(namespace).Delete(ctx, "web", deleteOptions)).To(Succeed())
		Eventually(names).Should(BeEmpty())
	})

	It("empty and remove a deleted namespace", func(ctx context.Context) {
		namespace := &corev1.Namespace{}
		namespace.Name = "doomed"
		_, err := clientset.CoreV1().Namespaces().Create(ctx, namespace, createOptions)
		Expect(err).NotTo(HaveOccurred())
		_, err = clientset.CoreV1().Pods(namespace.Name).Create(ctx, pod("inside"), createOptions)
		Expect(err).NotTo(HaveOccurred())
		Expect(clientset.CoreV1().Namespaces().Delete(ctx, namespace.Name, deleteOptions)).To(Succeed())
		Eventually(func() error {
			_, err := clientset.CoreV1().Namespaces().Get(ctx, namespace.Name, getOptions)
			return err
		}).Should(Satisfy(apierrors.IsNotFound))
	})

	It("let PodGC fail a terminating pod that was never scheduled", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		held := pod("held")
		held.Finalizers = []string{"test.holdfast.dev/hold"}
		held.Spec.SchedulerName = "nobody"
		pods := clientset.CoreV1().Pods(namespace)
		_, err := pods.Create(ctx, held, createOptions)
		Expect(err).NotTo(HaveOccurred())
		Expect(pods.Delete(ctx, "held", deleteOptions)).To(Succeed())
		Eventually(func() (corev1.PodPhase, error) {
			got, err := pods.Get(ctx, "held", getOptions)
			return got.Status.Phase, err
		}, podGCSoon).Should(Equal(corev1.PodFailed))
		_, err = pods.Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
	})

	It("make a silent Node Unknown after the grace period", func(ctx context.Context) {
		newReadyNode(ctx, "silent")
		Eventually(func() (corev1.ConditionStatus, error) {
			node, err := clientset.CoreV1().Nodes().Get(ctx, "silent", getOptions)
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady {
					return condition.Status, err
				}
			}
			return "", err
		}).Should(Equal(corev1.ConditionUnknown))
	})

	It("schedule a pod to a Node that reports", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		newReadyNode(ctx, "reporting")
		_, err := clientset.CoreV1().Pods(namespace).Create(ctx, pod("placed"), createOptions)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (string, error) {
			if err := heartbeat(ctx, "reporting"); err != nil {
				return "", err
			}
			got, err := clientset.CoreV1().Pods(namespace).Get(ctx, "placed", getOptions)
			return got.Spec.NodeName, err
		}).Should(Equal("reporting"))
		Expect(clientset.CoreV1().Pods(namespace).Delete(ctx, "placed", *metav1.NewDeleteOptions(0))).To(Succeed())
	})
})

var _ = Describe("Identities", func() {
	It("carry the node of a pod in its token", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		node := newReadyNode(ctx, "worker")
		account := &corev1.ServiceAccount{}
		account.Name = "agent"
		_, err := clientset.CoreV1().ServiceAccounts(namespace).Create(ctx, account, createOptions)
		Expect(err).NotTo(HaveOccurred())
		bound := pod("agent-x")
		bound.Spec.NodeName, bound.Spec.ServiceAccountName = node.Name, account.Name
		bound, err = clientset.CoreV1().Pods(namespace).Create(ctx, bound, createOptions)
		Expect(err).NotTo(HaveOccurred())

		config, err := plane.ServiceAccountConfig(ctx, namespace, account.Name, bound)
		Expect(err).NotTo(HaveOccurred())
		user := whoAmI(ctx, config)
		Expect(user.Username).To(Equal(fmt.Sprintf("system:serviceaccount:%s:agent", namespace)))
		Expect(user.Extra).To(SatisfyAll(
			HaveKeyWithValue("authentication.kubernetes.io/node-name", authenticationv1.ExtraValue{node.Name}),
			HaveKeyWithValue("authentication.kubernetes.io/node-uid", authenticationv1.ExtraValue{string(node.UID)}),
			HaveKeyWithValue("authentication.kubernetes.io/pod-name", authenticationv1.ExtraValue{bound.Name}),
			HaveKeyWithValue("authentication.kubernetes.io/pod-uid", authenticationv1.ExtraValue{string(bound.UID)}),
		))
		Expect(clientset.CoreV1().Pods(namespace).Delete(ctx, bound.Name, *metav1.NewDeleteOptions(0))).To(Succeed())
	})

	It("have only the rights of their name and groups", func(ctx context.Context) {
		config, kubeconfig, err := plane.AddUser("jane", "testers")
		Expect(err).NotTo(HaveOccurred())
		user := whoAmI(ctx, config)
		Expect(user.Username).To(Equal("jane"))
		Expect(user.Groups).To(ContainElement("testers"))

		fromFile, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		client, err := kubernetes.NewForConfig(fromFile)
		Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().Pods("default").List(ctx, listOptions)
		Expect(err).To(Satisfy(apierrors.IsForbidden))
	})

	It("give kubectl the administrator's kubeconfig", func(ctx context.Context) {
		kubectl := exec.CommandContext(ctx, filepath.Join(plane.AssetsDir(), "kubectl"),
			"--kubeconfig", plane.Kubeconfig(), "get", "widgets.test.holdfast.dev")
		output, err := kubectl.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(output))
		Expect(string(output)).To(ContainSubstring("No resources found"))
	})

	It("meet a server that knows its version", func() {
		version, err := clientset.Discovery().ServerVersion()
		Expect(err).NotTo(HaveOccurred())
		Expect(version.GitVersion).To(HavePrefix("v1."))
		Expect(version.Major).To(Equal("1"))
	})
})

var _ = Describe("The API server", Ordered, Serial, func() {
	It("comes back after a stop with the same data at the same address", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		Expect(plane.StopAPIServer()).To(Succeed())
		_, err := clientset.CoreV1().Namespaces().Get(ctx, namespace, getOptions)
		Expect(err).To(HaveOccurred())
		_, err = plane.PID("kube-apiserver")
		Expect(err).To(MatchError(ContainSubstring("is it running?")))

		Expect(plane.StartAPIServer(ctx)).To(Succeed())
		_, err = clientset.CoreV1().Namespaces().Get(ctx, namespace, getOptions)
		Expect(err).NotTo(HaveOccurred())
		Expect(plane.ControllerManager().Exited()).To(BeFalse())
		Expect(plane.Scheduler().Exited()).To(BeFalse())
	})

	It("answers nothing while it is paused", func(ctx context.Context) {
		DeferCleanup(func() { Expect(plane.ResumeAPIServer()).To(Succeed()) }) // of a spec that fails, for the others
		Expect(plane.PauseAPIServer()).To(Succeed())
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		_, err := clientset.CoreV1().Namespaces().Get(short, "default", getOptions)
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(plane.ResumeAPIServer()).To(Succeed())
		_, err = clientset.CoreV1().Namespaces().Get(ctx, "default", getOptions)
		Expect(err).NotTo(HaveOccurred())
	})
})

var _ = Describe("A start that cannot work", func() {
	It("asks for make kube where binaries are missing", func(ctx context.Context) {
		_, err := controlplane.Start(ctx, controlplane.Options{AssetsDir: GinkgoT().TempDir()})
		Expect(err).To(MatchError(ContainSubstring("run make kube")))
	})

	It("names the folder of CustomResourceDefinitions that is missing", func(ctx context.Context) {
		_, err := controlplane.Start(ctx, controlplane.Options{
			WorkDir: GinkgoT().TempDir(), CRDs: []string{"/nonexistent/crds"},
		})
		Expect(err).To(MatchError(ContainSubstring("CustomResourceDefinitions from /nonexistent/crds")))
	})

	It("shows the log of the component that failed, and stops the others", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		_, err := controlplane.Start(ctx, controlplane.Options{
			WorkDir:               dir,
			ControllerManagerArgs: map[string]string{"controllers": "nonsense"},
		})
		Expect(err).To(MatchError(SatisfyAll(
			ContainSubstring("waiting for kube-controller-manager"),
			ContainSubstring("nonsense"),
			ContainSubstring(filepath.Join(dir, "logs", "kube-controller-manager.log")),
		)))
		Expect(running(filepath.Join(dir, "run"))).To(BeEmpty())
	})
})
