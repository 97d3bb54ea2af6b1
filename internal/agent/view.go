// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// view is the records that one watch selects. It is the store of a reflector itself, with no queue in between: the version
// that it says it has is that of what it holds, which the stores behind informers do not promise.
type view struct {
	clock   clock.PassiveClock
	changed func()

	mu      sync.Mutex
	records map[string]*v1alpha1.IPAllocation
	marks   map[markKey]firstSeen
	version uint64
	synced  bool
}

var (
	_ cache.ReflectorStore         = &view{}
	_ cache.ResourceVersionUpdater = &view{}
)

// markKey is one question: another epoch is another one, and so is another boot.
type markKey struct {
	record    types.UID
	sandboxID string
	nodeUID   types.UID
	bootID    string
	epoch     int64
}

// firstSeen is when and where a mark was first in the view.
type firstSeen struct {
	at time.Time
	// after is a version of the view without the mark; by is the version of the record with it.
	after, by uint64
}

// asked is one mark that stands.
type asked struct {
	record *v1alpha1.IPAllocation
	mark   v1alpha1.Mark
	firstSeen
}

func newView(c clock.PassiveClock, changed func()) *view {
	return &view{clock: c, changed: changed, records: map[string]*v1alpha1.IPAllocation{}, marks: map[markKey]firstSeen{}}
}

// Add is the reflector's: an event of the watch.
func (v *view) Add(object any) error { return v.put(object) }

// Update is the reflector's: an event of the watch.
func (v *view) Update(object any) error { return v.put(object) }

func (v *view) put(object any) error {
	record, by, err := asRecord(object)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.records[record.Name]
	current := map[markKey]firstSeen{}
	news := v.sight(record, by, current)
	v.records[record.Name] = record
	v.forget(record.UID)
	maps.Copy(v.marks, current)
	if news || differs(before, record) {
		v.changed()
	}
	return nil
}

// sight notes the marks of a record; true if one is new.
func (v *view) sight(record *v1alpha1.IPAllocation, by uint64, into map[markKey]firstSeen) bool {
	news := false
	for _, mark := range record.Spec.Marks {
		key := keyOf(record, mark)
		seen, known := v.marks[key]
		if !known {
			seen = firstSeen{at: v.clock.Now(), after: v.version, by: by}
			news = true
		}
		if seen.by <= seen.after {
			// The record cannot be older than a view that did not have it: etcd was restored, and versions are given again.
			seen.after = 0
		}
		into[key] = seen
	}
	return news
}

// differs: a round may have something else to say to the record than before. What controllers write of a record without marks
// comes at every start and end of a pod, and matters to nobody here.
func differs(before, after *v1alpha1.IPAllocation) bool {
	if before == nil || before.UID != after.UID {
		return len(after.Spec.Marks) > 0
	}
	if !equality.Semantic.DeepEqual(before.Spec.Marks, after.Spec.Marks) {
		return true
	}
	return len(after.Spec.Marks) > 0 && (!equality.Semantic.DeepEqual(before.Status.Answers, after.Status.Answers) ||
		!equality.Semantic.DeepEqual(answeredOf(before), answeredOf(after)))
}

func (v *view) forget(record types.UID) {
	for key := range v.marks {
		if key.record == record {
			delete(v.marks, key)
		}
	}
}

// Delete is the reflector's: the record is gone, or of another node by now.
func (v *view) Delete(object any) error {
	record, _, err := asRecord(object)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.records, record.Name)
	v.forget(record.UID)
	return nil
}

// Replace is the reflector's: a list, the first one or after a gap in the watch.
func (v *view) Replace(objects []any, version string) error {
	at, err := parseVersion(version)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if at < v.version {
		v.restart()
	}
	records, marks := make(map[string]*v1alpha1.IPAllocation, len(objects)), map[markKey]firstSeen{}
	for _, object := range objects {
		record, by, err := asRecord(object)
		if err != nil {
			return err
		}
		records[record.Name] = record
		v.sight(record, by, marks)
	}
	v.records, v.marks = records, marks
	v.version, v.synced = at, true
	v.changed()
	return nil
}

// restart forgets where marks stand: a list that is older than the view is of a history that began again (etcd was restored), in
// which versions are given for a second time. When a mark was first seen stays true.
func (v *view) restart() {
	v.version = 0
	for key, seen := range v.marks {
		seen.after = 0
		v.marks[key] = seen
	}
}

// Resync is the reflector's, and nothing here: there is no queue to fill again.
func (v *view) Resync() error { return nil }

// UpdateResourceVersion is the reflector's, after an event or a bookmark, once the watch is in order.
func (v *view) UpdateResourceVersion(version string) {
	at, err := parseVersion(version)
	if err != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.version = max(v.version, at)
}

// sights is what a view has at one moment.
type sights struct {
	// records are by name. They are not copies.
	records map[string]*v1alpha1.IPAllocation
	// marks are those that stand.
	marks []asked
	// version is the view's; synced is false while there has been no list.
	version uint64
	synced  bool
}

func (v *view) snapshot() sights {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := sights{records: maps.Clone(v.records), version: v.version, synced: v.synced}
	for _, name := range slices.Sorted(maps.Keys(v.records)) {
		record := v.records[name]
		for _, mark := range record.Spec.Marks {
			now.marks = append(now.marks, asked{record: record, mark: mark, firstSeen: v.marks[keyOf(record, mark)]})
		}
	}
	return now
}

func keyOf(record *v1alpha1.IPAllocation, mark v1alpha1.Mark) markKey {
	return markKey{record: record.UID, sandboxID: mark.SandboxID, nodeUID: mark.NodeUID, bootID: mark.BootID, epoch: mark.Epoch}
}

func asRecord(object any) (*v1alpha1.IPAllocation, uint64, error) {
	record, ok := object.(*v1alpha1.IPAllocation)
	if !ok {
		return nil, 0, fmt.Errorf("watching IPAllocations: expected an IPAllocation, found %T", object)
	}
	version, err := parseVersion(record.ResourceVersion)
	return record, version, err
}

// parseVersion reads a resourceVersion, which is a number and grows (KEP-5504).
func parseVersion(text string) (uint64, error) {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the resourceVersion %q: %w", text, err)
	}
	return version, nil
}
