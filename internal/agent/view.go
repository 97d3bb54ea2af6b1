// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"strconv"
	"sync"
	"time"

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
	marks   map[markKey]sighted
	version uint64
	synced  bool
}

var (
	_ cache.ReflectorStore         = &view{}
	_ cache.ResourceVersionUpdater = &view{}
)

// markKey is one question: another epoch is another one.
type markKey struct {
	record    types.UID
	sandboxID string
	nodeUID   types.UID
	epoch     int64
}

// sighted is when and where a mark was first in the view.
type sighted struct {
	at time.Time
	// after is a version of the view without the mark; by is the version of the record with it.
	after, by uint64
}

// asked is one mark that stands.
type asked struct {
	record *v1alpha1.IPAllocation
	mark   v1alpha1.Mark
	sighted
}

func newView(c clock.PassiveClock, changed func()) *view {
	return &view{clock: c, changed: changed, records: map[string]*v1alpha1.IPAllocation{}, marks: map[markKey]sighted{}}
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
	v.records[record.Name] = record
	v.sight(record, by)
	v.changed()
	return nil
}

// sight notes the marks of a record that are new, and forgets those that it has no longer.
func (v *view) sight(record *v1alpha1.IPAllocation, by uint64) {
	current := make(map[markKey]sighted, len(record.Spec.Marks))
	for _, mark := range record.Spec.Marks {
		key := keyOf(record, mark)
		seen, known := v.marks[key]
		if !known {
			seen = sighted{at: v.clock.Now(), after: v.version, by: by}
		}
		current[key] = seen
	}
	v.forget(record.UID)
	for key, seen := range current {
		v.marks[key] = seen
	}
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
	v.changed()
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
	records, marks := make(map[string]*v1alpha1.IPAllocation, len(objects)), map[markKey]sighted{}
	for _, object := range objects {
		record, by, err := asRecord(object)
		if err != nil {
			return err
		}
		records[record.Name] = record
		for _, mark := range record.Spec.Marks {
			key := keyOf(record, mark)
			seen, known := v.marks[key]
			if !known {
				seen = sighted{at: v.clock.Now(), after: v.version, by: by}
			}
			marks[key] = seen
		}
	}
	v.records, v.marks = records, marks
	v.version, v.synced = at, true
	v.changed()
	return nil
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

// snapshot is every mark that stands and the version of the view; false while there has been no list.
func (v *view) snapshot() (_ []asked, version uint64, synced bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []asked
	for _, record := range v.records {
		for _, mark := range record.Spec.Marks {
			all = append(all, asked{record: record, mark: mark, sighted: v.marks[keyOf(record, mark)]})
		}
	}
	return all, v.version, v.synced
}

func keyOf(record *v1alpha1.IPAllocation, mark v1alpha1.Mark) markKey {
	return markKey{record: record.UID, sandboxID: mark.SandboxID, nodeUID: mark.NodeUID, epoch: mark.Epoch}
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
