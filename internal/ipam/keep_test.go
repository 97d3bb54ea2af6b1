// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// keeping is a backend of these entries, which puts tombstones unless it refuses.
type keeping struct {
	Backend
	entries  []Entry
	problems []Problem
	refusal  error
}

func (k *keeping) Find(q Query) Snapshot {
	var found Snapshot
	for _, e := range k.entries {
		if e.PodRef == q.Pod.String() || slices.Contains(q.SandboxIDs, e.SandboxID) {
			found.Entries = append(found.Entries, e)
		}
	}
	if q.Pod != (PodRef{}) {
		found.Problems = k.problems
	}
	return found
}

func (k *keeping) Tombstone(_ context.Context, requests []Request) []Result {
	var results []Result
	for _, r := range requests {
		if !r.Standing {
			k.refusal = errors.New("an entry that was removed would be made again")
		}
		results = append(results, Result{Request: r, Err: k.refusal})
	}
	return results
}

func TestKeep(t *testing.T) {
	key := func(ip, sandbox string) Key {
		return Key{Backend: "whereabouts", Pool: "kube-system/pool", IP: netip.MustParseAddr(ip), SandboxID: sandbox, PodRef: "apps/web-0", Interface: "net1"}
	}
	recorded := func(keys ...Key) *v1alpha1.IPAllocation {
		record := &v1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{Name: "uid"}}
		for _, k := range keys {
			record.Spec.Addresses = append(record.Spec.Addresses, v1alpha1.AddressRecord{Backend: k.Backend, Pool: k.Pool, IP: k.IP.String(), SandboxID: k.SandboxID,
				PodRef: k.PodRef, Interface: k.Interface})
		}
		return record
	}
	first, second := key("192.0.2.1", "sandbox-1"), key("192.0.2.2", "sandbox-2")
	other := first
	other.SandboxID = "sandbox-3"
	cases := map[string]struct {
		pools  keeping
		record *v1alpha1.IPAllocation
		want   []Key
		fails  string
	}{
		"every entry of the record":                       {keeping{entries: []Entry{{Key: first}, {Key: second}}}, recorded(first, second), []Key{first, second}, ""},
		"a recorded address whose entry is gone":          {keeping{entries: []Entry{{Key: second}}}, recorded(first, second), []Key{second}, ""},
		"a pod without entries has nothing to keep":       {keeping{}, nil, nil, ""},
		"an entry of the pod that has no record":          {keeping{entries: []Entry{{Key: first}}}, nil, nil, "the pod's record does not have 192.0.2.1"},
		"an entry of another sandbox than the record has": {keeping{entries: []Entry{{Key: other}}}, recorded(first), nil, "the pod's record does not have 192.0.2.1"},
		"an entry that cannot be read":                    {keeping{problems: []Problem{{Pool: "kube-system/pool", Offset: "7", Message: "no ID"}}}, nil, nil, "offset 7 of pool kube-system/pool: no ID"},
		"a tombstone that is refused":                     {keeping{entries: []Entry{{Key: first}}, refusal: errors.New("refused")}, recorded(first), nil, "refused"},
		"one with a record and one without":               {keeping{entries: []Entry{{Key: first}, {Key: second}}}, recorded(first), []Key{first}, "the pod's record does not have 192.0.2.2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kept, err := Keep(t.Context(), &tc.pools, PodRef{Namespace: "apps", Name: "web-0"}, tc.record)
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("got the error %v: expected %q", err, tc.fails)
			}
			var got []Key
			for _, r := range kept {
				got = append(got, r.Key)
			}
			if diff := cmp.Diff(tc.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}
