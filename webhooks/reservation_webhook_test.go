// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
)

// showing is a running pod with an address in its network-status.
func showing(ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "uid-0", Annotations: map[string]string{
			podnetwork.StatusAnnotation: fmt.Sprintf(`[{"name":"default/wb","interface":"net1","ips":[%q]}]`, ip)}},
		Spec:   corev1.PodSpec{NodeName: "node-a"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}},
	}
}

// restarting is such a pod of which the kubelet makes another sandbox.
func restarting(ip string) *corev1.Pod {
	pod := showing(ip)
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	return pod
}

// withoutStatus is a pod without a network-status.
func withoutStatus(node string, phase corev1.PodPhase) *corev1.Pod {
	pod := showing("10.10.0.1")
	pod.Annotations, pod.Spec.NodeName, pod.Status.Phase = nil, node, phase
	return pod
}

func readyNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
}

func TestReservations(t *testing.T) {
	reservation := func(podRef string) runtime.RawExtension {
		return runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata":{"namespace":"kube-system","name":"10.10.0.1"},"spec":{"podref":%q}}`, podRef)}
	}
	holders := []ipam.Key{{Backend: "whereabouts", Pool: "kube-system/10.10.0.0-24"}}
	beingDeleted := func(finalizers string) runtime.RawExtension {
		return runtime.RawExtension{Raw: bytes.Replace(reservation("default/web-0").Raw, []byte(`"metadata":{`), []byte(`"metadata":{"deletionTimestamp":"2026-11-29T12:00:00Z",`+finalizers), 1)}
	}
	for name, tc := range map[string]struct {
		cluster *cluster
		request admissionv1.AdmissionRequest
		allowed bool
	}{
		"a deletion while a pool holds the address": {
			cluster: &cluster{holders: holders}, request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0")}},
		"a deletion in a namespace that is not guarded": {allowed: true,
			cluster: &cluster{holders: holders}, request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, Namespace: "elsewhere", OldObject: reservation("default/web-0")}},
		"a deletion while the pools cannot be read": {
			cluster: &cluster{holdersErr: errors.New("timeout")}, request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0")}},
		"a deletion while no pool holds it": {
			request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0")}, allowed: true},
		"a deletion with an empty podref": {
			cluster: &cluster{holders: holders}, request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("")}},
		"an update to another podref": {cluster: &cluster{holders: holders}, request: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, OldObject: reservation("default/web-0"), Object: reservation("default/web-1")}},
		"a mark, which keeps the address from every pod": {cluster: &cluster{holders: holders}, request: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, OldObject: reservation("default/web-0"), Object: reservation("holdfast-releasing/default.web-0")}, allowed: true},
		"a mark of a mark, which would hide the pod": {cluster: &cluster{holders: holders}, request: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, OldObject: reservation("holdfast-releasing/default.web-0"), Object: reservation("holdfast-releasing/holdfast-releasing.default.web-0")}},
		"a mark for another pod": {cluster: &cluster{holders: holders}, request: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, OldObject: reservation("default/web-0"), Object: reservation("holdfast-releasing/default.web-1")}},
		"an update to another interface, for which no entry stands": {cluster: &cluster{holders: holders}, request: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, OldObject: reservation("default/web-0"),
			Object: runtime.RawExtension{Raw: bytes.Replace(reservation("default/web-0").Raw, []byte(`"spec":{`), []byte(`"spec":{"ifname":"net2",`), 1)}}},
		"an update that keeps the podref": {cluster: &cluster{holders: holders}, request: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, OldObject: reservation("default/web-0"), Object: reservation("default/web-0")}, allowed: true},
		"an update that deletes it, by removing its last finalizer": {cluster: &cluster{holders: holders}, request: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, OldObject: beingDeleted(`"finalizers":["example.com/a"],`), Object: beingDeleted("")}},
		"an update that deletes it, with an empty list of finalizers": {cluster: &cluster{holders: holders}, request: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, OldObject: beingDeleted(`"finalizers":["example.com/a"],`), Object: beingDeleted(`"finalizers":[],`)}},
		"an update of one that is being deleted, which leaves a finalizer": {cluster: &cluster{holders: holders}, request: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, OldObject: beingDeleted(`"finalizers":["example.com/a","example.com/b"],`), Object: beingDeleted(`"finalizers":["example.com/b"],`)}, allowed: true},
		"a deletion while its live pod shows the address": {cluster: &cluster{objects: []client.Object{showing("10.10.0.1")}},
			request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0")}},
		"a deletion while its live pod shows another address": {cluster: &cluster{objects: []client.Object{showing("10.10.0.2")}},
			request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0")}, allowed: true},
		"a deletion while its pod shows the address of the sandbox before": {cluster: &cluster{objects: []client.Object{restarting("10.10.0.2")}},
			request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0")}},
		"a deletion while its live pod shows what cannot be read": {cluster: &cluster{objects: []client.Object{showing("10.10.0.")}},
			request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0")}},
		"a deletion while its pod is starting and shows nothing yet": {cluster: &cluster{objects: []client.Object{withoutStatus("node-a", corev1.PodPending)}},
			request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0")}},
		"a deletion while its pod has no phase yet and shows nothing": {cluster: &cluster{objects: []client.Object{withoutStatus("node-a", "")}},
			request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0")}},
		"a deletion while its pod is bound to no node": {cluster: &cluster{objects: []client.Object{withoutStatus("", corev1.PodPending)}},
			request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0")}, allowed: true},
		"a deletion while its pod is over and never showed anything": {cluster: &cluster{objects: []client.Object{withoutStatus("node-a", corev1.PodFailed)}},
			request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0")}, allowed: true},
		"a deletion by CNI DEL of a pod whose start failed": {cluster: &cluster{objects: []client.Object{withoutStatus("node-a", corev1.PodPending), readyNode()}},
			request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0"), UserInfo: authenticationv1.UserInfo{Username: "cni"}}, allowed: true},
		"a deletion by an identity that runs CNI DEL": {cluster: &cluster{objects: []client.Object{showing("10.10.0.1"), readyNode()}},
			request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0"), UserInfo: authenticationv1.UserInfo{Username: "cni"}}, allowed: true},
		"a deletion while its pod cannot be read": {
			cluster: &cluster{fail: map[reflect.Type]error{reflect.TypeFor[*corev1.Pod](): errors.New("timeout")}},
			request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0")}},
		"a deletion of one that is being removed, while its live pod shows the address": {cluster: &cluster{objects: []client.Object{showing("10.10.0.1")}},
			request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("holdfast-releasing/default.web-0")}},
		"the manager's own deletion, which needs no read": {cluster: &cluster{holdersErr: errors.New("timeout"), fail: map[reflect.Type]error{reflect.TypeFor[*corev1.Pod](): errors.New("timeout")}},
			request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: reservation("default/web-0"), UserInfo: authenticationv1.UserInfo{Username: managerUser}}, allowed: true},
		"no old object": {request: admissionv1.AdmissionRequest{Operation: admissionv1.Delete}},
		"a new object of another shape": {request: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, OldObject: reservation("default/web-0"), Object: runtime.RawExtension{Raw: []byte(`[]`)}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := tc.cluster
			if c == nil {
				c = &cluster{}
			}
			guard, _ := c.guard(t, configv1alpha1.ReleaseModeDeny)
			response := (&ReservationReleaseValidator{guard}).Handle(t.Context(), admission.Request{AdmissionRequest: tc.request})
			if tc.allowed {
				checkAllowed(t, response)
				return
			}
			checkRefused(t, response)
		})
	}
}

func TestAReservationsPoolsAreListedWhileItsPodMayGetASandbox(t *testing.T) {
	deleting := showing("10.10.0.1")
	deleting.DeletionTimestamp, deleting.Finalizers = new(metav1.Now()), []string{v1alpha1.Finalizer}
	live := showing("10.10.0.1")
	live.Finalizers = []string{v1alpha1.Finalizer}
	unprotected := deleting.DeepCopy()
	unprotected.Finalizers = []string{"example.com/other"}
	for name, tc := range map[string]struct {
		objects []client.Object
		fail    map[reflect.Type]error
		want    bool
	}{
		"no pod":        {},
		"a live pod":    {objects: []client.Object{live}},
		"unreadable":    {objects: []client.Object{deleting}, fail: map[reflect.Type]error{reflect.TypeFor[*corev1.Pod](): errors.New("timeout")}},
		"being deleted": {objects: []client.Object{deleting}, want: true},
		"unprotected":   {objects: []client.Object{unprotected}},
		"failed":        {objects: []client.Object{withoutStatus("node-a", corev1.PodFailed)}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{objects: tc.objects, fail: tc.fail}
			guard, _ := c.guard(t, configv1alpha1.ReleaseModeDeny)
			(&ReservationReleaseValidator{guard}).Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Delete,
				OldObject: runtime.RawExtension{Raw: []byte(`{"metadata":{"namespace":"kube-system","name":"10.10.0.1"},"spec":{"podref":"default/web-0"}}`)}}})
			if c.podEnds != tc.want {
				t.Errorf("the backend was told that the pod ends: %t", c.podEnds)
			}
		})
	}
}
