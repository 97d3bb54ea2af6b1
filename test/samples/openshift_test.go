// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/config"
)

const (
	openshiftFolder    = samplesFolder + "/openshift"
	openshiftComponent = "config/components/openshift"
)

// securityContextConstraints has the fields of OpenShift's type of that name that the sample may use (security.openshift.io/v1, written after
// https://docs.redhat.com/en/documentation/openshift_container_platform/latest/html/authentication_and_authorization/managing-pod-security-policies):
// its module is not among ours.
type securityContextConstraints struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Priority                 *int32              `json:"priority"`
	Users                    []string            `json:"users"`
	Groups                   []string            `json:"groups"`
	Volumes                  []string            `json:"volumes"`
	SeccompProfiles          []string            `json:"seccompProfiles"`
	AllowHostDirVolumePlugin bool                `json:"allowHostDirVolumePlugin"`
	AllowHostIPC             bool                `json:"allowHostIPC"`
	AllowHostNetwork         bool                `json:"allowHostNetwork"`
	AllowHostPID             bool                `json:"allowHostPID"`
	AllowHostPorts           bool                `json:"allowHostPorts"`
	AllowPrivilegedContainer bool                `json:"allowPrivilegedContainer"`
	AllowPrivilegeEscalation *bool               `json:"allowPrivilegeEscalation"`
	ReadOnlyRootFilesystem   bool                `json:"readOnlyRootFilesystem"`
	AllowedCapabilities      []corev1.Capability `json:"allowedCapabilities"`
	DefaultAddCapabilities   []corev1.Capability `json:"defaultAddCapabilities"`
	RequiredDropCapabilities []corev1.Capability `json:"requiredDropCapabilities"`
	RunAsUser                strategy            `json:"runAsUser"`
	SELinuxContext           strategy            `json:"seLinuxContext"`
	FSGroup                  strategy            `json:"fsGroup"`
	SupplementalGroups       strategy            `json:"supplementalGroups"`
}

type strategy struct {
	Type string `json:"type"`
}

// DeepCopyObject makes the type an object; tests only read it.
func (s *securityContextConstraints) DeepCopyObject() runtime.Object { return s }

// TestOpenShiftGivesTheManagerItsIDs: the SCC restricted-v2 takes user and group IDs of the namespace's range only.
func TestOpenShiftGivesTheManagerItsIDs(t *testing.T) {
	manager := of[*appsv1.Deployment](render(t, openshiftFolder))["holdfast-manager"].Spec.Template.Spec
	pod := manager.SecurityContext
	if pod.RunAsUser != nil || pod.RunAsGroup != nil || pod.FSGroup != nil {
		t.Errorf("the manager's pods ask for IDs of their own: %+v", pod)
	}
	if pod.RunAsNonRoot == nil || !*pod.RunAsNonRoot {
		t.Error("the manager's pods may run as root")
	}
	for i := range manager.Containers {
		own := manager.Containers[i].SecurityContext
		if own.RunAsUser != nil || own.AllowPrivilegeEscalation == nil || *own.AllowPrivilegeEscalation || !slices.Contains(own.Capabilities.Drop, "ALL") {
			t.Errorf("container %s would be refused: %+v", manager.Containers[i].Name, own)
		}
	}
}

// TestOpenShiftAdmitsTheAgents compares what the agents' pods ask for with what their SCC gives.
func TestOpenShiftAdmitsTheAgents(t *testing.T) {
	objects := render(t, openshiftFolder)
	agent := of[*appsv1.DaemonSet](objects)["holdfast-agent"]
	scc := of[*securityContextConstraints](objects)["holdfast-agent"]
	pod := agent.Spec.Template.Spec
	if account := "system:serviceaccount:" + agent.Namespace + ":" + pod.ServiceAccountName; !slices.Contains(scc.Users, account) {
		t.Errorf("the SCC is for %v, and the agents are %s", scc.Users, account)
	}
	if scc.givesMore() {
		t.Errorf("the SCC gives more than the agents ask for: %+v", scc)
	}
	if own := pod.Containers[0].SecurityContext.SELinuxOptions; own == nil || own.Type != "spc_t" {
		t.Errorf("SELinux would keep the agents from the runtime's socket: they have %+v", own)
	}
	if scc.SELinuxContext.Type != "RunAsAny" || scc.RunAsUser.Type != "RunAsAny" {
		t.Errorf("the SCC gives SELinux %+v and user %+v", scc.SELinuxContext, scc.RunAsUser)
	}
	for i := range pod.Volumes {
		if !scc.gives(&pod.Volumes[i]) {
			t.Errorf("the SCC has no volume like %s", pod.Volumes[i].Name)
		}
	}
}

// givesMore reports whether the constraints allow what no agent needs.
func (s *securityContextConstraints) givesMore() bool {
	return s.AllowPrivilegedContainer || s.AllowHostNetwork || s.AllowHostPID || s.AllowHostIPC || s.AllowHostPorts || len(s.AllowedCapabilities) > 0
}

// gives reports whether the constraints allow a volume of the kinds that agents have.
func (s *securityContextConstraints) gives(v *corev1.Volume) bool {
	switch {
	case v.HostPath != nil:
		return s.AllowHostDirVolumePlugin && slices.Contains(s.Volumes, "hostPath")
	case v.ConfigMap != nil:
		return slices.Contains(s.Volumes, "configMap")
	}
	return false
}

// TestAgentsMountTheirRuntimesFolder: the endpoint of the configuration lies in a folder that the pod mounts from the same place.
func TestAgentsMountTheirRuntimesFolder(t *testing.T) {
	for _, folder := range []string{"config/default", openshiftFolder} {
		objects := render(t, folder)
		pod := of[*appsv1.DaemonSet](objects)["holdfast-agent"].Spec.Template.Spec
		mounted := map[string]string{}
		var file string
		for _, volume := range pod.Volumes {
			if volume.HostPath != nil {
				mounted[volume.Name] = volume.HostPath.Path
			}
			if volume.ConfigMap != nil {
				file = of[*corev1.ConfigMap](objects)[volume.ConfigMap.Name].Data["config.yaml"]
			}
		}
		agent, err := config.ParseAgent(folder, []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		socket := path.Dir(agent.Runtime.Endpoint)
		if !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == socket && mounted[m.Name] == socket }) {
			t.Errorf("%s: no folder of the host is mounted at %s, where the runtime's socket is expected", folder, socket)
		}
	}
}

// TestOpenShiftDiffersWhereItSays: the sample only warns of removals, and the component has what its documentation names beside the installation's.
func TestOpenShiftDiffersWhereItSays(t *testing.T) {
	sample, component, ours := parseManager(t, openshiftFolder+"/manager.yaml"), parseManager(t, openshiftComponent+"/manager.yaml"), parseManager(t, "config/manager/config.yaml")
	if sample.UnsafeReleases.Mode != configv1alpha1.ReleaseModeWarn || component.UnsafeReleases.Mode != configv1alpha1.ReleaseModeDeny {
		t.Errorf("removals: %s in the sample, %s in the component", sample.UnsafeReleases.Mode, component.UnsafeReleases.Mode)
	}
	sample.UnsafeReleases.Mode = component.UnsafeReleases.Mode
	if diff := cmp.Diff(component, sample); diff != "" {
		t.Errorf("the manager (-component +sample):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"openshift-multus"}, component.Whereabouts.Namespaces); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	component.Whereabouts.Namespaces, component.UnsafeReleases = ours.Whereabouts.Namespaces, ours.UnsafeReleases
	if diff := cmp.Diff(ours, component); diff != "" {
		t.Errorf("the manager (-installation +component):\n%s", diff)
	}
	agent, shipped := parseAgent(t, openshiftComponent+"/agent.yaml"), parseAgent(t, "config/agent/config.yaml")
	agent.Runtime.Endpoint = shipped.Runtime.Endpoint
	if diff := cmp.Diff(shipped, agent); diff != "" {
		t.Errorf("the agent (-installation +component):\n%s", diff)
	}
}

func parseManager(t *testing.T, file string) *configv1alpha1.ManagerConfiguration {
	t.Helper()
	c, err := config.ParseManager(file, []byte(read(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parseAgent(t *testing.T, file string) *configv1alpha1.AgentConfiguration {
	t.Helper()
	c, err := config.ParseAgent(file, []byte(read(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
