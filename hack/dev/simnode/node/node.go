// SPDX-License-Identifier: Apache-2.0

// Package node does what a kubelet does for its Node object: it registers it,
// reports its status and renews its Lease, under the kubelet's own identity.
package node

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// UserAgent makes the API server name the field manager "kubelet".
const UserAgent = "kubelet/v1.37.1 (linux/amd64) kubernetes/simnode"

// Identity returns a copy of an administrator's configuration that acts as the
// kubelet of this node.
func Identity(administrator *rest.Config, name string) *rest.Config {
	config := rest.CopyConfig(administrator)
	config.UserAgent = UserAgent
	config.QPS, config.Burst = 50, 100 // the kubelet's defaults
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + name, Groups: []string{"system:nodes"}}
	return config
}

// Machine identifies a machine and one boot of it, as in nodeInfo.
type Machine struct{ MachineID, SystemUUID, BootID string }

// NewMachine returns the machine that always stands behind this name, freshly
// booted.
func NewMachine(name string) Machine {
	digest := sha256.Sum256([]byte("simulated machine " + name))
	return Machine{
		MachineID:  fmt.Sprintf("%x", digest[:16]),
		SystemUUID: uuid.NewSHA1(uuid.NameSpaceOID, digest[:]).String(),
		BootID:     uuid.NewString(),
	}
}

// NewHardware returns a machine that never stood behind any name, freshly booted.
func NewHardware() Machine {
	return Machine{
		MachineID:  strings.ReplaceAll(uuid.NewString(), "-", ""),
		SystemUUID: uuid.NewString(),
		BootID:     uuid.NewString(),
	}
}

// Rebooted returns the same machine after another boot.
func (m Machine) Rebooted() Machine {
	m.BootID = uuid.NewString()
	return m
}

// Options of a Node.
type Options struct {
	Name    string
	Machine Machine
	// InternalIP is the node's address.
	InternalIP string
	// Heartbeat is how often the Lease is renewed and the status reported.
	Heartbeat time.Duration
	// NetworkReady is nil once the machine's CNI can give pods their network, and
	// else describes what it lacks; the node is not Ready then.
	NetworkReady func() error
}

// Register creates the Node, or takes over the one of this name, as kubelet does
// (kubelet_node_status.go, tryRegisterWithAPIServer), and reports its status.
func Register(ctx context.Context, client kubernetes.Interface, o Options) error {
	_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: o.Name,
		Labels: map[string]string{
			corev1.LabelHostname: o.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		},
	}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("registering node %s: %w", o.Name, err)
	}
	return report(ctx, client, o)
}

// report writes the whole status. A Node that was deleted is registered again by
// the caller's next start only, as with kubelet.
func report(ctx context.Context, client kubernetes.Interface, o Options) error {
	node, err := client.CoreV1().Nodes().Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("status of node %s: %w", o.Name, err)
	}
	patch, err := statusPatch(node.Status, status(node.Status, o, metav1.Now()))
	if err == nil {
		_, err = client.CoreV1().Nodes().PatchStatus(ctx, o.Name, patch)
	}
	if err != nil {
		return fmt.Errorf("status of node %s: %w", o.Name, err)
	}
	return nil
}

// statusPatch is what a kubelet sends: only what differs, so that it never
// conflicts with writers of the rest of the Node.
func statusPatch(before, after corev1.NodeStatus) ([]byte, error) {
	old, err := json.Marshal(corev1.Node{Status: before})
	if err != nil {
		return nil, err
	}
	wanted, err := json.Marshal(corev1.Node{Status: after})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(old, wanted, corev1.Node{})
}

// status is what a healthy kubelet reports, on top of what others wrote.
func status(old corev1.NodeStatus, o Options, now metav1.Time) corev1.NodeStatus {
	result := *old.DeepCopy()
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"), corev1.ResourcePods: resource.MustParse("250"),
	}
	result.Capacity, result.Allocatable = resources, resources
	result.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: o.InternalIP}, {Type: corev1.NodeHostName, Address: o.Name},
	}
	result.NodeInfo = corev1.NodeSystemInfo{
		MachineID: o.Machine.MachineID, SystemUUID: o.Machine.SystemUUID, BootID: o.Machine.BootID,
		KernelVersion: "simulated", OSImage: "simulated", OperatingSystem: "linux", Architecture: "amd64",
		ContainerRuntimeVersion: api.RuntimeName + "://" + api.RuntimeVersion, KubeletVersion: "v1.37.1",
	}
	for _, c := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID"},
		ready(o.NetworkReady()),
	} {
		setCondition(&result, c, now)
	}
	return result
}

func ready(networkError error) corev1.NodeCondition {
	if networkError != nil {
		return corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady",
			Message: "container runtime network not ready: " + networkError.Error(),
		}
	}
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status",
	}
}

func setCondition(status *corev1.NodeStatus, c corev1.NodeCondition, now metav1.Time) {
	c.LastHeartbeatTime, c.LastTransitionTime = now, now
	for i, old := range status.Conditions {
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		status.Conditions[i] = c
		return
	}
	status.Conditions = append(status.Conditions, c)
}
