// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"encoding/json"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestRecordsShareTextsAndLoseNone decodes one record twice, as a watch does for two records on one node.
func TestRecordsShareTextsAndLoseNone(t *testing.T) {
	record := v1alpha1.IPAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: "uid", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "holdfast-manager"}}, Finalizers: []string{"example.com/other"}},
		Spec: v1alpha1.IPAllocationSpec{PodNamespace: "apps", PodName: "web-0", NodeName: "node-a", IPs: []string{"10.0.0.1"},
			Sandboxes: []v1alpha1.SandboxRecord{{ID: "one", Attribution: v1alpha1.AttributionNetworkStatus, Node: &v1alpha1.NodeIdentity{UID: "node", MachineID: "m", SystemUUID: "s", BootID: "b"}}, {ID: "two"}},
			Addresses: []v1alpha1.AddressRecord{{Backend: "whereabouts", Pool: "kube-system/p", IP: "10.0.0.1", Interface: "net1", Network: "apps/blue", PodRef: "apps/web-0", SandboxID: "two"}}},
	}
	text, err := json.Marshal(&record)
	if err != nil {
		t.Fatal(err)
	}
	var kept [2]*v1alpha1.IPAllocation
	for i := range kept {
		decoded := &v1alpha1.IPAllocation{}
		if err := json.Unmarshal(text, decoded); err != nil {
			t.Fatal(err)
		}
		want := decoded.DeepCopy()
		want.ManagedFields = nil
		object, err := recordTransform(decoded)
		if err != nil {
			t.Fatal(err)
		}
		kept[i] = object.(*v1alpha1.IPAllocation)
		if diff := cmp.Diff(want, kept[i]); diff != "" {
			t.Errorf("the cache changes a record (-want +got):\n%s", diff)
		}
	}
	one, other := kept[0].Spec, kept[1].Spec
	for name, texts := range map[string][2]string{
		"node name": {one.NodeName, other.NodeName}, "boot ID": {one.Sandboxes[0].Node.BootID, other.Sandboxes[0].Node.BootID},
		"pool": {one.Addresses[0].Pool, other.Addresses[0].Pool}, "sandbox of an address": {one.Sandboxes[1].ID, one.Addresses[0].SandboxID},
	} {
		if unsafe.StringData(texts[0]) != unsafe.StringData(texts[1]) {
			t.Errorf("%s: two copies", name)
		}
	}
}

func TestALabelOfAnotherValueIsKept(t *testing.T) {
	for _, value := range []string{v1alpha1.GuardedLabelValue, "other"} {
		labels := labelsOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.GuardedLabel: value, "app": "web"}}})
		if diff := cmp.Diff(map[string]string{v1alpha1.GuardedLabel: value}, labels); diff != "" {
			t.Errorf("value %q (-want +got):\n%s", value, diff)
		}
	}
}
