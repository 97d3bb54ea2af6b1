// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/podnetwork"
	"github.com/holdfast-dev/holdfast/internal/protection"
)

const (
	clusterAndOne = `[{"name":"cni","interface":"eth0","ips":["10.244.0.5"],"default":true},{"name":"ns/wb","interface":"net1","ips":["10.0.0.1"]}]`
	clusterAndTwo = `[{"name":"cni","interface":"eth0","ips":["10.244.0.5"],"default":true},{"name":"ns/wb","interface":"net1","ips":["10.0.0.1"]},{"name":"ns/wb","interface":"net2","ips":["10.0.0.2"]}]`
)

func recordOfAddresses(ips ...string) *v1alpha1.IPAllocation {
	record := &v1alpha1.IPAllocation{}
	for _, ip := range ips {
		record.Spec.Addresses = append(record.Spec.Addresses, v1alpha1.AddressRecord{IP: ip})
	}
	return record
}

func TestRecordsAll(t *testing.T) {
	for name, tc := range map[string]struct {
		record        *v1alpha1.IPAllocation
		status        string
		gone, guarded bool
		chosen        bool
		want          bool
	}{
		"no record":                        {nil, clusterAndOne, false, false, false, false},
		"a record without an address":      {recordOfAddresses(), clusterAndOne, false, false, false, false},
		"a pod that is gone shows nothing": {recordOfAddresses("10.0.0.1"), "", true, false, false, true},
		"every address, but for that of the cluster's own network": {
			recordOfAddresses("10.0.0.1"), clusterAndOne, false, false, false, true},
		"an address that is not recorded": {
			recordOfAddresses("10.0.0.1"), clusterAndTwo, false, false, false, false},
		"the cluster's own network is guarded, and its address is not recorded": {
			recordOfAddresses("10.0.0.1"), clusterAndOne, false, true, false, false},
		"the cluster's own network is guarded, and its address is recorded": {
			recordOfAddresses("10.0.0.1", "10.244.0.5"), clusterAndOne, false, true, false, true},
		"the pod chose another network in its place, and that address is not recorded": {
			recordOfAddresses("10.0.0.1"), clusterAndOne, false, false, true, false},
		"the pod chose another network in its place, and that address is recorded": {
			recordOfAddresses("10.0.0.1", "10.244.0.5"), clusterAndOne, false, false, true, true},
		"a status that cannot be read may show more": {
			recordOfAddresses("10.0.0.1"), `[{"name":"ns/wb","interface":"net1","ips":["10.0.0.1","10.0.0."]}]`, false, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := &view{record: tc.record}
			if !tc.gone {
				v.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{nadv1.NetworkStatusAnnot: tc.status}}}
			}
			if tc.chosen {
				v.pod.Annotations[podnetwork.DefaultNetworkAnnotation] = "ns/wb"
			}
			if got := v.observation(Options{Rules: protection.Rules{GuardClusterNetwork: tc.guarded}}).Recorded; got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestNetworksAreNamedByTheStatus(t *testing.T) {
	v := &view{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{nadv1.NetworkStatusAnnot: clusterAndTwo}}}}
	record := recordOfAddresses("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.244.0.5")
	record.Spec.Addresses[0].Interface = "net1"
	record.Spec.Addresses[1].Interface = "net7" // another interface has this address
	record.Spec.Addresses[3].Network = "ns/known"
	nameNetworks(v, record)
	for i, want := range []string{"ns/wb", "", "", "ns/known"} {
		if got := record.Spec.Addresses[i].Network; got != want {
			t.Errorf("%s: network %q, want %q", record.Spec.Addresses[i].IP, got, want)
		}
	}
	nameNetworks(&view{}, recordOfAddresses("10.0.0.1")) // a pod that is gone names none
}
