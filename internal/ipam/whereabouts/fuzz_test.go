// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"encoding/json"
	"slices"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

func FuzzDecodePool(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"namespace":"kube-system","name":"p"},"spec":{"range":"10.0.0.0/24","allocations":{"7":{"id":"sb","podref":"ns/web-0","ifname":"net1"}}}}`,
		`{"spec":{"range":"fd00::/64","allocations":{"-1":{"id":""},"18446744073709551616":{},"x":{"podref":"holdfast-releasing/uid"}}}}`,
		`{"spec":{"range":"?","allocations":{"1":{}}}}`, `{"spec":{"allocations":null}}`, `[]`, `null`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		pool, err := DecodePool(raw)
		if err != nil {
			return
		}
		network, rangeErr := pool.Range()
		if len(pool.Entries) > len(raw) {
			t.Errorf("%d entries out of %d bytes", len(pool.Entries), len(raw))
		}
		for offset, entry := range pool.Entries {
			if address, ok := pool.Address(offset); ok && (rangeErr != nil || !network.Contains(address)) {
				t.Errorf("offset %q is %s, outside of %s (%v)", offset, address, network, rangeErr)
			}
			if pod, record, err := ParsePodRef(entry.PodRef); err == nil && (pod == nil) == (record == "") {
				t.Errorf("podref %q names pod %v and record %q; expected one of both", entry.PodRef, pod, record)
			}
		}
	})
}

func FuzzDecodeReservation(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"namespace":"kube-system","name":"storage-10.0.0.7"},"spec":{"podref":"ns/web-0","ifname":"net1"}}`,
		`{"metadata":{"name":"fd00--7"},"spec":{"podref":"ns/web-0"}}`, `{"spec":{"podref":1}}`, `null`, "\xff",
	} {
		f.Add([]byte(seed), "storage-10.0.0.0-24", "10.0.0.0/24")
	}
	request := requestOf("ns/web-0", "net1")
	f.Fuzz(func(t *testing.T, raw []byte, pool, rangeText string) {
		r, err := DecodeReservation(raw)
		if err != nil {
			return
		}
		subject := reservation{name: r.Name, podRef: r.PodRef, iface: r.Interface}
		if !newNaming(pool, rangeText).owns(subject, request.Key, false) {
			return
		}
		if _, ofAddress := cutAddress(r.Name, request.IP); !ofAddress || r.PodRef != request.PodRef {
			t.Errorf("reservation %q of %q counts as that of %s", r.Name, r.PodRef, request.Key)
		}
	})
}

// FuzzKeepSlices: whatever a write does to the slices, the patch leaves each with the node that had it.
func FuzzKeepSlices(f *testing.F) {
	const four = `{"spec":{"range":"10.0.0.0/24","sliceSize":"/26"},"status":{"allocations":[{"nodeName":"a","sliceRange":"10.0.0.0/26"},{"nodeName":"b","sliceRange":"10.0.0.64/26"}]}}`
	f.Add([]byte(four), []byte(`{"spec":{"range":"10.0.0.0/24","sliceSize":"/26"},"status":{"allocations":[{"nodeName":"x","sliceRange":"10.0.0.0/26"}]}}`))
	f.Add([]byte(four), []byte(`{"spec":{"range":"10.0.0.0/24","sliceSize":"/26"}}`))
	f.Add([]byte(four), []byte(`{"spec":{"range":"10.0.0.0/24","sliceSize":"/26"},"status":{"allocations":[]}}`))
	f.Add([]byte(four), []byte(`{"spec":{"range":"10.0.0.0/23"}}`))
	f.Fuzz(func(t *testing.T, rawBefore, rawAfter []byte) {
		before, err := DecodeSlicePool(rawBefore)
		after, afterErr := DecodeSlicePool(rawAfter)
		if err != nil || afterErr != nil || !json.Valid(rawAfter) {
			return
		}
		taken := TakenSlices(before, after)
		if len(taken) == 0 || repeats(before) {
			return
		}
		// What the API server has written has the fields of the type, spelled as the type spells them.
		canonical, err := canonicalSlicePool(after)
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(KeepSlices(after, taken))
		if err != nil {
			t.Fatal(err)
		}
		patch, err := jsonpatch.DecodePatch(data)
		if err != nil {
			t.Fatal(err)
		}
		patched, err := patch.Apply(canonical)
		if err != nil {
			t.Fatalf("the patch %s does not apply to %s: %v", data, canonical, err)
		}
		kept, err := DecodeSlicePool(patched)
		if err != nil {
			t.Fatal(err)
		}
		if still := TakenSlices(before, kept); len(still) > 0 {
			t.Errorf("taken all the same: %v, by %s", still, patched)
		}
	})
}

// repeats: a range stands twice, which whereabouts never writes.
func repeats(pool *SlicePool) bool {
	seen := map[string]bool{}
	return slices.ContainsFunc(pool.Slices, func(s Slice) bool {
		again := seen[s.Range]
		seen[s.Range] = true
		return again
	})
}

func canonicalSlicePool(p *SlicePool) ([]byte, error) {
	status := map[string]any{}
	if p.Slices != nil {
		allocations := make([]map[string]string, 0, len(p.Slices))
		for _, s := range p.Slices {
			allocations = append(allocations, map[string]string{"nodeName": s.Node, "sliceRange": s.Range})
		}
		status["allocations"] = allocations
	}
	return json.Marshal(map[string]any{"spec": map[string]string{"range": p.Range, "sliceSize": p.Size}, "status": status})
}
