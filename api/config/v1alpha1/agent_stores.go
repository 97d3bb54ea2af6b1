// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultStoreInterval is how often unchanged stores are read.
const DefaultStoreInterval = 30 * time.Second

// AgentStores names the stores of the node's own IPAMs that are audited. Without a path nothing is.
type AgentStores struct {
	// Interval is how often the stores are compared with the runtime while they do not change; 100ms to 1m. Default: 30s.
	Interval *metav1.Duration `json:"interval,omitempty"`
	// HostLocal is the IPAM host-local.
	HostLocal AgentHostLocal `json:"hostLocal,omitempty"`
	// AWS is the daemon of the AWS VPC CNI. It is only ever read.
	AWS AgentAWS `json:"aws,omitempty"`
}

// AgentHostLocal names the stores of host-local.
type AgentHostLocal struct {
	// DataDirs are host-local's data directories, as the agent's container sees them: each has a folder for each network. One that is
	// not there has no network.
	DataDirs []string `json:"dataDirs,omitempty"`
	// Networks are the names of the networks that are looked at; none is all of them. Name them where containers of others than the
	// kubelet's runtime (podman, nerdctl) have addresses in the same directory: no list of the runtime shows those.
	Networks []string `json:"networks,omitempty"`
	// Reclaim removes the address of a sandbox that is proven gone from the networks that are named, under host-local's lock. Needs
	// networks, and a mount that can be written. Default: false.
	Reclaim bool `json:"reclaim,omitempty"`
}

// AgentAWS names the store of the AWS VPC CNI.
type AgentAWS struct {
	// Checkpoint is the file in which ipamd keeps what it has assigned (AWS_VPC_K8S_CNI_BACKING_STORE, by default
	// /var/run/aws-node/ipam.json), as the agent's container sees it. Those of further network cards are found beside it.
	Checkpoint string `json:"checkpoint,omitempty"`
}

// Configured reports whether there is a store to audit.
func (s *AgentStores) Configured() bool {
	return len(s.HostLocal.DataDirs) > 0 || s.AWS.Checkpoint != ""
}

func validateAgentStores(s *AgentStores, path *field.Path) field.ErrorList {
	errs := runtimeTime(path.Child("interval"), s.Interval)
	errs = append(errs, validateHostLocal(&s.HostLocal, path.Child("hostLocal"))...)
	if c := s.AWS.Checkpoint; c != "" && (!filepath.IsAbs(c) || !strings.HasSuffix(c, ".json")) {
		errs = append(errs, field.Invalid(path.Child("aws", "checkpoint"), c, `must be the absolute path of a file that ends in ".json", such as "/var/run/aws-node/ipam.json"`))
	}
	return errs
}

func validateHostLocal(h *AgentHostLocal, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, dir := range h.DataDirs {
		at := path.Child("dataDirs").Index(i)
		if !filepath.IsAbs(dir) {
			errs = append(errs, field.Invalid(at, dir, `must be an absolute path, such as "/var/lib/cni/networks"`))
		}
		for _, other := range h.DataDirs[:i] {
			if overlap(dir, other) {
				errs = append(errs, field.Invalid(at, dir, "must not be, contain or be below "+other+": an address would be found twice"))
			}
		}
	}
	errs = append(errs, validateEach(h.Networks, path.Child("networks"), isNetwork)...)
	if h.Reclaim && (len(h.Networks) == 0 || len(h.DataDirs) == 0) {
		errs = append(errs, field.Invalid(path.Child("reclaim"), h.Reclaim,
			"needs dataDirs, and networks that only the kubelet's runtime uses: the address of a running container of podman or nerdctl looks like one of a sandbox that is gone"))
	}
	return errs
}

func isNetwork(name string) []string {
	if name == "" || name != filepath.Base(name) || name == "." || name == ".." {
		return []string{"must be the name of a network, which is the name of its folder"}
	}
	return nil
}

// overlap: one folder is the other, or below it.
func overlap(x, y string) bool {
	x, y = filepath.Clean(x)+"/", filepath.Clean(y)+"/"
	return strings.HasPrefix(x, y) || strings.HasPrefix(y, x)
}
