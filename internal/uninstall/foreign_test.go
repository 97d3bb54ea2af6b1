// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIsForeign(t *testing.T) {
	configMap, secret := kind("", "v1", "ConfigMap"), kind("", "v1", "Secret")
	pod, deployment := kind("", "v1", "Pod"), kind("apps", "v1", "Deployment")
	owned := func(o *metav1.PartialObjectMetadata) {
		o.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "team"}}
	}
	going := func(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp = &metav1.Time{} }
	for name, tc := range map[string]struct {
		gvk    schema.GroupVersionKind
		name   string
		labels map[string]string
		change func(*metav1.PartialObjectMetadata)
		want   bool
	}{
		"another application's deployment":        {gvk: deployment, name: "team", want: true},
		"the manager's deployment":                {gvk: deployment, name: managerName, labels: map[string]string{partOfLabel: partOf}},
		"another application's pod":               {gvk: pod, name: "team", want: true},
		"a pod of ours":                           {gvk: pod, name: "team", labels: ourPods},
		"the agents, by their label alone":        {gvk: kind("apps", "v1", "DaemonSet"), name: agentName, labels: ourPods},
		"a pod of something that is listed":       {gvk: pod, name: "team", change: owned},
		"a pod that is being deleted":             {gvk: pod, name: "team", change: going},
		"another application's configuration":     {gvk: configMap, name: "team", want: true},
		"the API server's root certificates":      {gvk: configMap, name: "kube-root-ca.crt"},
		"the root certificates of a mesh":         {gvk: configMap, name: "istio-ca-root-cert"},
		"an earlier configuration of the manager": {gvk: configMap, name: "holdfast-manager-config-abc"},
		"another application's secret":            {gvk: secret, name: "team", want: true},
		"the webhooks' certificate":               {gvk: secret, name: "holdfast-webhook-cert"},
		"a chart's release":                       {gvk: secret, name: "sh.helm.release.v1.holdfast.v1"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: tc.name, Labels: tc.labels}}
			if tc.change != nil {
				tc.change(object)
			}
			if got := isForeign(tc.gvk, object); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
