// SPDX-License-Identifier: Apache-2.0

// Package certmanager_test lets cert-manager, as clusters of our own run it, issue what config/certmanager asks for: on a
// real API server, with the accounts and roles of hack/certmanager/manifests.
package certmanager_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	// soon bounds what needs no waiting but for a busy machine.
	soon         = 2 * time.Minute
	pollInterval = 100 * time.Millisecond
	// endingSoon bounds the orderly end of a process.
	endingSoon = 30 * time.Second

	repository = "../../.."
	// certManager is the path of its module.
	certManager = "github.com/cert-manager/cert-manager"
	namespace   = "holdfast-system"
)

var (
	// admin is uncached and allowed everything.
	admin client.Client
	// kubectl runs the real one as the administrator.
	kubectl func(ctx context.Context, args ...string)
)

func TestCertManager(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "cert-manager from its module")
}

var _ = BeforeSuite(func(ctx context.Context) {
	SetDefaultEventuallyTimeout(soon)
	SetDefaultEventuallyPollingInterval(pollInterval)
	EnforceDefaultTimeoutsWhenUsingContexts()
	Expect(certmanagerv1.AddToScheme(scheme.Scheme)).To(Succeed())

	folder := GinkgoT().TempDir()
	config := startControlPlane(folder)
	kubectl = kubectlFor(config, folder)

	kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(repository, "hack/certmanager/manifests"))
	kubectl(ctx, "create", "namespace", namespace)
	binary := build(ctx, folder)
	start(ctx, binary, "controller", kubeconfigOf(ctx, config, folder, "cert-manager"))
	start(ctx, binary, "cainjector", kubeconfigOf(ctx, config, folder, "cert-manager-cainjector"))
})

func startControlPlane(folder string) *rest.Config {
	environment := &envtest.Environment{
		UseExistingCluster:    new(false), // the environment variable does not count
		CRDDirectoryPaths:     []string{filepath.Join(module(certManager, "Dir"), "deploy/crds")},
		ErrorIfCRDPathMissing: true,
	}
	server := environment.ControlPlane.GetAPIServer().Configure()
	server.Set("authorization-mode", "RBAC")
	// Kubernetes 1.37 refuses to advertise a loopback address.
	server.Set("endpoint-reconciler-type", "none")
	config, err := environment.Start()
	DeferCleanup(environment.Stop)
	Expect(err).NotTo(HaveOccurred())
	admin, err = client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	writeKubeconfig(filepath.Join(folder, "admin"), config, clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
	})
	return config
}

// ofVersion are the arguments for the version that CERTMANAGER names, 1.19 or 1.20: none for the one that go.mod pins. make matrix sets it.
func ofVersion() []string {
	minor := os.Getenv("CERTMANAGER")
	if minor == "" {
		return nil
	}
	return []string{"-modfile=../go-" + minor + ".mod", "-tags=certmanager_" + strings.ReplaceAll(minor, ".", "_")}
}

// module is what go list reports on a module.
func module(path, field string) string {
	out, err := exec.Command("go", slices.Concat([]string{"list"}, ofVersion(), []string{"-m", "-f", "{{." + field + "}}", path})...).Output()
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(out))
}

func kubectlFor(config *rest.Config, folder string) func(context.Context, ...string) {
	binary := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	return func(ctx context.Context, args ...string) {
		GinkgoHelper()
		cmd := exec.CommandContext(ctx, binary, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(folder, "admin"))
		out, err := cmd.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "kubectl %v against %s:\n%s", args, config.Host, out)
	}
}

// build makes the binary as hack/certmanager/build.sh does. Linking it into the test would compile all of cert-manager
// a second time, for the race detector.
func build(ctx context.Context, folder string) string {
	binary := filepath.Join(folder, "certmanager")
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build"}, ofVersion(), []string{"-trimpath", "-buildvcs=false", "-o", binary, "-ldflags",
		"-s -w -X " + certManager + "/pkg/util.AppVersion=" + module(certManager, "Version"), ".."})...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	return binary
}

// kubeconfigOf is one with a token of the service account, so that its role is all that the process may do.
func kubeconfigOf(ctx context.Context, config *rest.Config, folder, account string) string {
	request := &authenticationv1.TokenRequest{}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cert-manager", Name: account}}
	Expect(admin.SubResource("token").Create(ctx, owner, request)).To(Succeed())
	file := filepath.Join(folder, account)
	writeKubeconfig(file, config, clientcmdapi.AuthInfo{Token: request.Status.Token})
	return file
}

func writeKubeconfig(file string, config *rest.Config, user clientcmdapi.AuthInfo) {
	Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"test": &user},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}, file)).To(Succeed())
}

// start runs a component until the suite ends, and then wants it to end in order.
func start(ctx context.Context, binary, component, kubeconfig string) {
	cmd := exec.Command(binary, component, "--kubeconfig", kubeconfig, "--health-address", "0")
	cmd.Stdout, cmd.Stderr = GinkgoWriter, GinkgoWriter
	Expect(cmd.Start()).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	DeferCleanup(func() {
		Expect(cmd.Process.Signal(os.Interrupt)).To(Succeed())
		Eventually(ended).WithTimeout(endingSoon).Should(Receive(BeNil()), fmt.Sprintf("%s should exit on the signal", component))
	})
}
