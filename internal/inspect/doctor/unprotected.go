// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"
	"time"
)

// namedPods is how many pods a line names.
const namedPods = 3

// unprotected: pods that hold an address without the finalizer. The manager adds it within seconds, so that there are none is not worth a
// line.
func unprotected(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "unprotected pods"
	count := len(f.Unprotected)
	if count == 0 {
		return
	}
	found := fmt.Sprintf("%d pods hold an address and have the label without the finalizer: %s", count, strings.Join(f.Unprotected[:min(count, namedPods)], ", "))
	if count > namedPods {
		found += fmt.Sprintf(" and %d more", count-namedPods)
	}
	ready, _ := readyReplicas(f)
	switch {
	case isShadow(f):
		d.add(Warn, name, found, "nothing, as long as the mode is Shadow: it protects no pod")
	case ready == 0:
		d.add(Fail, name, found+"; no replica of the manager is Ready to add it", "bring the manager back: kubectl -n "+f.Namespace+" get pods -o wide")
	default:
		d.add(Warn, name, found, "nothing: the manager adds the finalizer within seconds. If they stay, see the manager's log; the event ProtectedAgain names who removes it")
	}
}
