// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/internal/ipam"
)

// FuzzDecodePool: the entries are those that any reader of the object finds, and an address is one of the range.
func FuzzDecodePool(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		pool, err := New(Options{}).DecodePool(raw)
		if err != nil {
			return
		}
		if keys := keysOf(raw, "spec", "allocations"); len(keys) != len(pool.Entries) {
			t.Errorf("%d entries, expected those of %q", len(pool.Entries), keys)
		}
		for offset, entry := range pool.Entries {
			if address := entry.IP; address.IsValid() && (pool.RangeErr != nil || !pool.Range.Contains(address)) {
				t.Errorf("offset %q is %s, outside of %s (%v)", offset, address, pool.Range, pool.RangeErr)
			}
			if pod, record, err := ipam.ParseReference(entry.PodRef); err == nil && (pod == nil) == (record == "") {
				t.Errorf("podref %q names pod %v and record %q; expected one of both", entry.PodRef, pod, record)
			}
		}
	})
}

// FuzzDecodePools: what an update changes is found as by reading both pools in full, and nothing that changed is left out.
func FuzzDecodePools(f *testing.F) {
	const pool = `{"metadata":{"namespace":"ns","name":"p"},"spec":{"range":"10.0.0.0/24","allocations":{%s}}}`
	const one, two, spaced = `"1":{"id":"a","podref":"ns/web-0"}`, `"2":{"id":"b","podref":"ns/web-1","ifname":"net1"}`, `"1":{ "podref":"ns/web-0", "id":"a" }`
	add := func(before, after string) {
		f.Add(fmt.Appendf(nil, pool, before), fmt.Appendf(nil, pool, after))
	}
	add(one+","+two, two)
	add(one, spaced)
	add(one, `"1":{"id":"a","podref":"ns/web-9"},`+two)
	add(one, `"1":{"id":"a","podref":"ns/web-0"},"1":{"id":"c","podref":"ns/web-9"}`)
	add(one, `"1":null`)
	add(one, `"1":{"id":"z","podref":"ns/web-0"}`) // as long as before
	f.Add([]byte(`{"spec":{"range":"10.0.0.0/24","allocations":{`+one+`}}}`), []byte(`{"spec":{"range":"10.1.0.0/24","allocations":{`+one+`}}}`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		b := New(Options{})
		wholeOld, err := b.DecodePool(before)
		if err != nil {
			return
		}
		wholeNew, err := b.DecodePool(after)
		if err != nil {
			return
		}
		was, is, err := b.DecodePools(before, after)
		if err != nil {
			t.Fatal(err)
		}
		isPart(t, was, wholeOld, wholeNew)
		isPart(t, is, wholeNew, wholeOld)
	})
}

// isPart compares what was read of a pool with the whole: all that the other does not have, too.
func isPart(t *testing.T, got, whole, other *ipam.AdmittedPool) {
	t.Helper()
	if got.Name != whole.Name || got.Range != whole.Range || (got.RangeErr == nil) != (whole.RangeErr == nil) || len(got.Entries) > len(whole.Entries) {
		t.Errorf("pool %+v, expected %+v", got, whole)
	}
	for offset, want := range whole.Entries {
		entry, kept := got.Entries[offset]
		if same, has := other.Entries[offset]; kept && entry != want || !kept && (!has || same != want) {
			t.Errorf("entry %q is %+v (%t), expected %+v beside %+v (%t)", offset, entry, kept, want, same, has)
		}
	}
}

// keysOf are the keys of the object under a path, spelled exactly so.
func keysOf(raw []byte, path ...string) []string {
	object := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &object) != nil {
		return nil
	}
	if len(path) == 0 {
		return slices.Collect(maps.Keys(object))
	}
	return keysOf(object[path[0]], path[1:]...)
}

// FuzzIndex: every allocation of a cached pool is an entry or a problem, found under each of its names, and nothing of a deleted pool is kept.
func FuzzIndex(f *testing.F) {
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var before, after wb.IPPool
		if json.Unmarshal(first, &before) != nil || json.Unmarshal(second, &after) != nil {
			return
		}
		after.Namespace, after.Name = before.Namespace, before.Name
		x := newIndex()
		for i, pool := range []*wb.IPPool{&before, &after} {
			pool.ResourceVersion = strconv.Itoa(i)
			x.apply(pool, time.Unix(int64(i), 0))
			checkIndexed(t, x, pool)
		}
		x.remove(poolName(before.Namespace, before.Name))
		if left := len(x.pools) + indexedIn(x) + x.problems; left != 0 {
			t.Errorf("%d things are kept of a pool that was deleted", left)
		}
	})
}

func checkIndexed(t *testing.T, x *index, pool *wb.IPPool) {
	t.Helper()
	cached := x.pools[poolName(pool.Namespace, pool.Name)]
	if len(cached.raw) != len(pool.Spec.Allocations) {
		t.Errorf("%d of %d allocations are indexed", len(cached.raw), len(pool.Spec.Allocations))
	}
	problems := 0
	if cached.problem != nil {
		problems++
	}
	for offset, raw := range pool.Spec.Allocations {
		a := cached.at(offset)
		if a.problem != nil {
			problems++
		} else if e := a.entry; e == nil || e.PodRef != raw.PodRef || e.SandboxID != raw.ContainerID || !cached.network.Contains(e.IP) {
			t.Errorf("offset %q (%+v) is neither a problem nor its entry: %+v", offset, raw, e)
		}
		checkFound(t, x.bySandbox, raw.ContainerID, location{cached, offset})
		checkFound(t, x.byPodRef, raw.PodRef, location{cached, offset})
	}
	if problems != x.problems {
		t.Errorf("%d problems are counted, expected %d", x.problems, problems)
	}
}

func checkFound(t *testing.T, by *buckets[string, location], key string, at location) {
	t.Helper()
	if key != "" && !slices.Contains(by.find(key), at) {
		t.Errorf("offset %q is not found by %q", at.offset, key)
	}
}

// FuzzConfig: what a definition says of reservations, ranges and slices is the same each time, and nothing where it cannot be read.
func FuzzConfig(f *testing.F) {
	f.Fuzz(func(t *testing.T, config string) {
		b := New(Options{})
		ranges, slicePool := b.Ranges(config), b.SlicePool(config, "definition")
		if !json.Valid([]byte(config)) && (b.Reserves(config) || len(ranges) > 0 || slicePool != "") {
			t.Errorf("a configuration that cannot be read says %t, %v, %q", b.Reserves(config), ranges, slicePool)
		}
		if len(ranges) > len(config) {
			t.Errorf("%d ranges of %d bytes", len(ranges), len(config))
		}
		for _, r := range ranges {
			if !r.IsValid() || r != r.Masked() {
				t.Errorf("%s is no network", r)
			}
		}
		if again := b.SlicePool(config, "definition"); again != slicePool {
			t.Errorf("the slices are those of %q, and then of %q", slicePool, again)
		}
		checkUsage(t, b, config)
	})
}

// checkUsage measures a pool with one entry by a configuration.
func checkUsage(t *testing.T, b *Backend, config string) {
	t.Helper()
	b.index.apply(poolOfOne("10.0.0.0/24"), time.Time{})
	for _, use := range b.Usage([]string{config}) {
		if use.Addresses < 0 || math.IsNaN(use.Addresses+use.Fullest) || math.IsInf(use.Addresses, 0) || use.Fullest < 0 || use.Entries != 1 {
			t.Errorf("the use of a pool with one entry is %+v", use)
		}
	}
}

// FuzzReservationName: the address is found in every name that whereabouts gives to its reservation, and sameness has no direction.
func FuzzReservationName(f *testing.F) {
	f.Fuzz(func(t *testing.T, network, address, other string) {
		b := New(Options{})
		ip, err := netip.ParseAddr(address)
		if len(network)+len(other) > 2*maxName || err != nil || ip.Zone() != "" || strings.Contains(network, "/") {
			return
		}
		name := normalize(ip.Unmap().String())
		if network != "" {
			name = network + "-" + name
		}
		if found := b.ReservationAddresses(poolName("ns", name)); !slices.Contains(found, ip.Unmap()) {
			t.Errorf("%q reserves %v, expected %s among them", name, found, ip.Unmap())
		}
		x, y := poolName("ns", name), poolName("ns", other)
		if b.SameReservation(x, y) != b.SameReservation(y, x) || !b.SameReservation(x, x) {
			t.Errorf("%q is %q: %t, and the other way round %t", x, y, b.SameReservation(x, y), b.SameReservation(y, x))
		}
	})
}

// FuzzReconcilerShared: a tag that cannot be read never says that the reconciler has a pod of its own.
func FuzzReconcilerShared(f *testing.F) {
	f.Fuzz(func(t *testing.T, image, beside string) {
		shared := New(Options{}).ReconcilerShared([]string{image, beside})
		if shared != New(Options{}).ReconcilerShared([]string{beside, image}) {
			t.Errorf("the order of %q and %q decides", image, beside)
		}
		if !shared && (!New(Options{}).ReconcilerShared([]string{image, beside, "whereabouts:latest"}) || !strings.Contains(image+beside, Name)) {
			t.Errorf("%q and %q say that the reconciler is elsewhere, beside other images", image, beside)
		}
	})
}

// FuzzDecodeReservation: a reservation counts only for the address in its name and the podref in it.
func FuzzDecodeReservation(f *testing.F) {
	request := requestOf("ns/web-0", "net1")
	f.Fuzz(func(t *testing.T, raw []byte, pool, rangeText string) {
		r, err := New(Options{}).DecodeReservation(raw)
		if err != nil {
			return
		}
		if !newNaming(pool, rangeText).owns(r, request.Key, false) {
			return
		}
		owner, _ := ipam.ReservationOwner(r.PodRef)
		if _, ofAddress := cutAddress(keyOf(r.Name).Name, request.IP); !ofAddress || owner != request.PodRef {
			t.Errorf("reservation %q of %q counts as that of %s", r.Name, r.PodRef, request.Key)
		}
	})
}

// FuzzKeepSlices: for any write to the slices, the patch leaves each with the node that had it.
func FuzzKeepSlices(f *testing.F) {
	f.Fuzz(func(t *testing.T, rawBefore, rawAfter []byte) {
		before, err := New(Options{}).DecodeSlicePool(rawBefore)
		after, afterErr := New(Options{}).DecodeSlicePool(rawAfter)
		if err != nil || afterErr != nil || !json.Valid(rawAfter) {
			return
		}
		taken := ipam.TakenSlices(before, after)
		if len(taken) == 0 || repeats(before) {
			return
		}
		// What the API server has written has the fields of the type, spelled as the type spells them.
		canonical, err := canonicalSlicePool(after)
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(New(Options{}).KeepSlices(after, taken))
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
		kept, err := New(Options{}).DecodeSlicePool(patched)
		if err != nil {
			t.Fatal(err)
		}
		if still := ipam.TakenSlices(before, kept); len(still) > 0 {
			t.Errorf("taken all the same: %v, by %s", still, patched)
		}
	})
}

// repeats: a range stands twice, which whereabouts never writes.
func repeats(pool *ipam.SlicePool) bool {
	seen := map[string]bool{}
	return slices.ContainsFunc(pool.Slices, func(s ipam.Slice) bool {
		again := seen[s.Range]
		seen[s.Range] = true
		return again
	})
}

func canonicalSlicePool(p *ipam.SlicePool) ([]byte, error) {
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
