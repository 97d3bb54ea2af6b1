// SPDX-License-Identifier: Apache-2.0

package shapes_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	nadinformers "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/informers/externalversions"
	wbclient "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned"
	wbinformers "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/informers/externalversions"
	nodecontroller "github.com/k8snetworkplumbingwg/whereabouts/pkg/node-controller"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/cni"
)

// directoryMark stands for the directory in the configuration of a network.
const directoryMark = "$DIR"

// The files that configurations name, in the directory.
const (
	// flatFile has the range of a network whose definition has none.
	flatFile = "flat.conf"
	// slicesFile has no range; it is there because the node-slice controller wants a flat file too.
	slicesFile = "slices.conf"
	// firstKubeconfig and secondKubeconfig are those of whereabouts in its two namespaces.
	firstKubeconfig, secondKubeconfig = "first.kubeconfig", "second.kubeconfig"
)

func writeFiles() {
	GinkgoHelper()
	kubeconfig := func(namespace string) string {
		return `{"apiVersion":"v1","kind":"Config","current-context":"one","contexts":[{"name":"one","context":{"cluster":"c","namespace":"` + namespace + `"}}]}`
	}
	files := map[string]string{
		firstKubeconfig:  kubeconfig(firstNamespace),
		secondKubeconfig: kubeconfig(secondNamespace),
		slicesFile:       `{"kubernetes":{"kubeconfig":"$DIR/first.kubeconfig"}}`,
		flatFile: `{"kubernetes":{"kubeconfig":"$DIR/first.kubeconfig"},"network_name":"flat",
			"range":"10.112.0.0/24","range_start":"10.112.0.16","range_end":"10.112.0.31"}`,
		filepath.Join("standin", clusterwide, cni.MultusFile): `{"clusterNetwork":"kube-system/base"}`,
	}
	for _, node := range everyNode {
		files[filepath.Join("standin", node, cni.ConfigurationFolder, "10-on-disk.conf")] =
			`{"cniVersion":"0.3.1","name":"on-disk","type":"macvlan","ipam":{"type":"whereabouts","range":"10.113.0.0/24"}}`
	}
	for name, content := range files {
		path := filepath.Join(directory, name)
		Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		Expect(os.WriteFile(path, []byte(inDirectory(content)), 0o600)).To(Succeed())
	}
}

func inDirectory(content string) string { return strings.ReplaceAll(content, directoryMark, directory) }

// runSliceController runs whereabouts' node-slice controller as its own command does.
func runSliceController(ctx context.Context) {
	GinkgoHelper()
	config := theCluster.Config()
	clientset, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	pools, err := wbclient.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	networks, err := nadclient.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())

	coreFactory := informers.NewSharedInformerFactory(clientset, 0)
	poolFactory := wbinformers.NewSharedInformerFactory(pools, 0)
	networkFactory := nadinformers.NewSharedInformerFactory(networks, 0)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	controller := nodecontroller.NewController(running, clientset, pools, networks, coreFactory.Core().V1().Nodes(),
		poolFactory.Whereabouts().V1alpha1().NodeSlicePools(), networkFactory.K8sCniCncfIo().V1().NetworkAttachmentDefinitions(), true, firstNamespace)
	coreFactory.Start(running.Done())
	poolFactory.Start(running.Done())
	networkFactory.Start(running.Done())
	done := make(chan error, 1)
	go func() { done <- controller.Run(running, 1) }()
	DeferCleanup(func() {
		stop()
		Eventually(done).Should(Receive(Succeed()))
	})
}
