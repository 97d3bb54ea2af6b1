// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"regexp"

	"github.com/holdfast-dev/holdfast/internal/kubeversion"
)

// minors are the versions that hack/kube builds for the matrix.
var minors = []string{"1.31", "1.33", "1.35", "1.37"}

// tier is what runs on each version. The last command is what the row is about, and the total is in its output; those before it prepare, and what
// cleans up runs after them, however they ended.
type tier struct {
	// of is what the versions are of, and what is what runs with each.
	of, what string
	minors   []string
	table    table
	commands func(minor, assets string) [][]string
	// printed is a command that prints the whole version.
	printed func(minor, assets string) []string
	cleanup []string
}

// order is that of a run of all tiers, and of the summary: those that need no cluster come first.
var order = []string{"suites", "containerd", "whereabouts", "certmanager", "core", "core-containerd", "core-whereabouts", "k3s"}

var tiers = map[string]tier{
	"suites": {
		of: "Kubernetes", what: "the suites, on its API server, controller manager and scheduler, built from source",
		minors: minors, table: newTable("API server of Kubernetes", "suites"), printed: serverVersion, commands: suites,
	},
	"core": {
		of: "Kubernetes", what: "the end-to-end core on two real nodes, with agents",
		minors: minors, table: newTable("Real nodes of Kubernetes", "core"), printed: serverVersion, commands: core, cleanup: clusterDown,
	},
	"core-containerd": {
		of: "containerd", what: "the end-to-end core on two real nodes of Kubernetes 1.37, with Debian's runc",
		minors: containerds, table: newTable("Real nodes with containerd", "core-containerd"), printed: containerdVersion, commands: coreOn, cleanup: clusterDown,
	},
	"core-whereabouts": {
		of: "whereabouts", what: "the end-to-end core on two real nodes of Kubernetes 1.37, with a whole installation of it",
		minors: []string{"0.6", "0.7", "0.8"}, table: newTable("Real nodes with whereabouts", "core-whereabouts"),
		printed: whereaboutsVersion, commands: coreWith, cleanup: clusterDown,
	},
	"k3s": {
		of: "Kubernetes under the name `k3s`", what: "all of the end-to-end suite on two real nodes, with agents and containerd 2.4",
		minors: []string{newest}, table: newTable("Real nodes under the name `k3s`", "k3s"), printed: serverVersion, commands: fullOnK3s, cleanup: clusterDown,
	},
	"containerd": {
		of: "containerd", what: "the agent on it, built from its modules",
		minors: containerds, table: newTable("Agent on containerd", "containerd"), printed: containerdVersion, commands: agent,
	},
	"whereabouts": {
		of: "whereabouts", what: "every shape of a network, by its own CNI program and definitions",
		minors: []string{"0.6", "0.7", "0.8", "0.9"}, table: newTable("CNI plugin of whereabouts", "whereabouts"), printed: whereaboutsVersion, commands: shapes,
	},
	"certmanager": {
		of: "cert-manager", what: "its controllers and CA injector issue, inject and renew for `config/certmanager`",
		minors: []string{"1.19", "1.20", pinnedCertManager}, table: newTable("Controllers of cert-manager", "certmanager"),
		printed: certManagerVersion, commands: issuing,
	},
}

var newest = kubeversion.Newest.String()

var clusterDown = []string{"make", "cluster-down"}

// containerds are the versions that hack/containerd builds.
var containerds = []string{"1.6", "1.7", "2.2", newestContainerd}

const newestContainerd = "2.4"

// The versions that the go.mod of hack/dev and of hack/certmanager pin. Older ones have a module file each.
const (
	pinnedWhereabouts = "0.9"
	pinnedCertManager = "1.21"
)

func suites(minor, assets string) [][]string {
	return [][]string{
		{"make", "kube", "build", "helm-tool", "KUBE_VERSION=" + minor, "KUBE_BIN=" + assets},
		{"go", "run", "./hack/gotest", "-assets", assets, "suites"},
	}
}

func core(minor, assets string) [][]string {
	versioned := []string{"KUBE_VERSION=" + minor, "KUBE_BIN=" + assets}
	return [][]string{append([]string{"make", "cluster-up"}, versioned...), append([]string{"make", "e2e"}, versioned...)}
}

// coreOn runs on the newest Kubernetes.
func coreOn(minor, _ string) [][]string {
	return [][]string{{"make", "cluster-up", "CONTAINERD=" + minor}, {"make", "e2e"}}
}

// coreWith runs on the newest Kubernetes, too.
func coreWith(minor, _ string) [][]string {
	return [][]string{{"make", "cluster-up", "WHEREABOUTS=" + minor}, {"make", "e2e"}}
}

func fullOnK3s(_, _ string) [][]string {
	return [][]string{{"make", "cluster-up", "PLATFORM=k3s", "CONTAINERD=" + newestContainerd}, {"make", "e2e-full"}}
}

func agent(minor, _ string) [][]string {
	return [][]string{{"make", "kube", "containerd", "CONTAINERD=" + minor}, {"make", "test-node", "CONTAINERD=" + minor}}
}

func containerdVersion(minor, _ string) []string {
	return []string{"grep", "-oE", `v` + regexp.QuoteMeta(minor) + `\.[0-9]+`, "hack/containerd/versions"}
}

func serverVersion(_, assets string) []string {
	return []string{filepath.Join(assets, "kube-apiserver"), "--version"}
}

func shapes(minor, _ string) [][]string {
	return [][]string{{"env", "WHEREABOUTS=" + minor, "go", "run", "./hack/gotest", "extended", "test/shapes"}}
}

func whereaboutsVersion(minor, _ string) []string {
	folder := "hack/whereabouts"
	if minor == pinnedWhereabouts {
		folder = "hack/dev"
	}
	return moduleVersion(folder, minor, pinnedWhereabouts, "github.com/k8snetworkplumbingwg/whereabouts")
}

// issuing runs on the API server of the newest Kubernetes.
func issuing(minor, _ string) [][]string {
	if minor == pinnedCertManager {
		minor = ""
	}
	return [][]string{{"make", "kube"}, {"env", "CERTMANAGER=" + minor, "go", "run", "./hack/gotest", "extended", "certmanager/test"}}
}

func certManagerVersion(minor, _ string) []string {
	return moduleVersion("hack/certmanager", minor, pinnedCertManager, "github.com/cert-manager/cert-manager")
}

// moduleVersion prints which version of a module a folder requires, by the module file of the minor version unless that is pinned.
func moduleVersion(folder, minor, pinned, module string) []string {
	command := []string{"go", "-C", folder, "list", "-m", "-f", "{{.Version}}"}
	if minor != pinned {
		command = append(command, "-modfile=go-"+minor+".mod")
	}
	return append(command, module)
}
