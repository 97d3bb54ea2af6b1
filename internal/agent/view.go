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

// view is the records of the node, as one watch selects them. It is the store of a reflector.
type view struct {
	clock   clock.PassiveClock
	changed func()

	mu      sync.Mutex
	records map[string]*v1alpha1.IPAllocation
	marks   map[markKey]time.Time
	synced  bool
}

var _ cache.ReflectorStore = &view{}

// markKey is one question: another epoch is another one, and so is another boot.
type markKey struct {
	record    types.UID
	sandboxID string
	nodeUID   types.UID
	bootID    string
	epoch     int64
}

// asked is one mark that stands.
type asked struct {
	record *v1alpha1.IPAllocation
	mark   v1alpha1.Mark
	// at is when this agent first saw it.
	at time.Time
}

func newView(c clock.PassiveClock, changed func()) *view {
	return &view{clock: c, changed: changed, records: map[string]*v1alpha1.IPAllocation{}, marks: map[markKey]time.Time{}}
}

// Add is the reflector's: an event of the watch.
func (v *view) Add(object any) error { return v.put(object) }

// Update is the reflector's: an event of the watch.
func (v *view) Update(object any) error { return v.put(object) }

func (v *view) put(object any) error {
	record, err := asRecord(object)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.records[record.Name]
	current := map[markKey]time.Time{}
	news := v.sight(record, current)
	v.records[record.Name] = record
	v.forget(record.UID)
	maps.Copy(v.marks, current)
	if news || differs(before, record) {
		v.changed()
	}
	return nil
}

// sight notes the marks of a record; true if one is new.
func (v *view) sight(record *v1alpha1.IPAllocation, into map[markKey]time.Time) bool {
	news := false
	for _, mark := range record.Spec.Marks {
		key := keyOf(record, mark)
		at, known := v.marks[key]
		if !known {
			at, news = v.clock.Now(), true
		}
		into[key] = at
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
	record, err := asRecord(object)
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
func (v *view) Replace(objects []any, _ string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	records, marks := make(map[string]*v1alpha1.IPAllocation, len(objects)), map[markKey]time.Time{}
	for _, object := range objects {
		record, err := asRecord(object)
		if err != nil {
			return err
		}
		records[record.Name] = record
		v.sight(record, marks)
	}
	v.records, v.marks, v.synced = records, marks, true
	v.changed()
	return nil
}

// Resync is the reflector's, and nothing here: there is no queue to fill again.
func (v *view) Resync() error { return nil }

// sights is what a view has at one moment.
type sights struct {
	// records are by name. They are not copies.
	records map[string]*v1alpha1.IPAllocation
	// marks are those that stand.
	marks []asked
	// synced is false while there has been no list.
	synced bool
}

func (v *view) snapshot() sights {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := sights{records: maps.Clone(v.records), synced: v.synced}
	for _, name := range slices.Sorted(maps.Keys(v.records)) {
		record := v.records[name]
		for _, mark := range record.Spec.Marks {
			now.marks = append(now.marks, asked{record: record, mark: mark, at: v.marks[keyOf(record, mark)]})
		}
	}
	return now
}

func keyOf(record *v1alpha1.IPAllocation, mark v1alpha1.Mark) markKey {
	return markKey{record: record.UID, sandboxID: mark.SandboxID, nodeUID: mark.NodeUID, bootID: mark.BootID, epoch: mark.Epoch}
}

func asRecord(object any) (*v1alpha1.IPAllocation, error) {
	record, ok := object.(*v1alpha1.IPAllocation)
	if !ok {
		return nil, fmt.Errorf("watching IPAllocations: expected an IPAllocation, found %T", object)
	}
	return record, nil
}

// parseVersion reads a resourceVersion, which is a number and grows (KEP-5504).
func parseVersion(text string) (uint64, error) {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the resourceVersion %q: %w", text, err)
	}
	return version, nil
}
