// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
)

// notes are the reports of Nodes. They are complete up to a version: that of the last event or bookmark.
type notes struct {
	mu sync.Mutex
	// version is empty until the notes are complete.
	version string
	// last is the last report of each Node, by Node UID.
	last map[types.UID]v1alpha1.NodeIdentity
	// unwritten are the reports that are in no GuardedNode yet, by Node UID.
	unwritten map[types.UID]reports
	// isLeading: this replica writes GuardedNodes. Until then the notes are those of a replica that starts now: of the Nodes that are there.
	isLeading bool
	// unseen are Nodes that were never seen, by name, until a Node of the name reports.
	unseen map[string]*unseen
}

// unseen represents a Node that was never seen. Only the holder of Lifecycle.turn uses it.
type unseen struct {
	object v1alpha1.GuardedNode
	// looked is when signs of its kubelet were last read.
	looked time.Time
}

// reports are the machines that reported under one Node UID, the oldest first.
type reports struct {
	name     string
	machines []v1alpha1.NodeIdentity
}

// lead begins to keep the reports of deleted Nodes.
func (n *notes) lead() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isLeading = true
}

// begin is called before a list, which has all Nodes that are there.
func (n *notes) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.isLeading {
		n.last, n.unwritten = nil, nil
	}
}

// list notes a page of a list. The last page makes the notes complete.
func (n *notes) list(page *corev1.NodeList) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.version = ""
	for i := range page.Items {
		n.report(&page.Items[i], false)
	}
	if page.Continue == "" {
		n.version = page.ResourceVersion
	}
}

// event notes an event. The initial list of a watch is complete with the bookmark at its end; isList says whether that is still to come.
func (n *notes) event(e watch.Event, isList bool) (stillList bool) {
	node, is := e.Object.(*corev1.Node)
	if !is {
		return isList
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch e.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		n.report(node, e.Type == watch.Deleted)
	case watch.Bookmark:
		isList = isList && node.Annotations[metav1.InitialEventsAnnotationKey] != "true"
	case watch.Error:
		return isList
	}
	if n.version = node.ResourceVersion; isList {
		n.version = ""
	}
	return isList
}

// report notes a machine, unless it is the Node's last report.
func (n *notes) report(node *corev1.Node, isDeleted bool) {
	delete(n.unseen, node.Name)
	if isDeleted && !n.isLeading {
		delete(n.last, node.UID)
		delete(n.unwritten, node.UID)
		return
	}
	machine := facts.Identity(node)
	last, isKnown := n.last[node.UID]
	if n.last == nil {
		n.last, n.unwritten = map[types.UID]v1alpha1.NodeIdentity{}, map[types.UID]reports{}
	}
	if n.last[node.UID] = machine; isDeleted {
		delete(n.last, node.UID)
	} else if isKnown && last == machine {
		return
	}
	if before := n.unwritten[node.UID].machines; len(before) == 0 || before[len(before)-1] != machine {
		n.unwritten[node.UID] = reports{node.Name, append(slices.Clone(before), machine)}
	}
}

// forget drops a deleted Node.
func (n *notes) forget(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.last, uid)
}

// reached is the version up to which all reports are noted; empty before they are complete.
func (n *notes) reached() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.version
}

// unchanged takes a bookmark of another watch, which had no event since a version; false if the notes are not at that version any more.
func (n *notes) unchanged(from string, bookmark runtime.Object) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	node, is := bookmark.(*corev1.Node)
	if !is || n.version != from {
		return false
	}
	n.version = node.ResourceVersion
	return true
}

// haveReached says whether all reports up to a version are noted.
func (n *notes) haveReached(version string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	order, err := resourceversion.CompareResourceVersion(n.version, version)
	return err == nil && order >= 0
}

// of are the machines that reported under a Node UID and are not written yet.
func (n *notes) of(uid types.UID) reports {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unwritten[uid]
}

// uids are the Node UIDs with unwritten reports.
func (n *notes) uids() []types.UID {
	n.mu.Lock()
	defer n.mu.Unlock()
	uids := make([]types.UID, 0, len(n.unwritten))
	for uid := range n.unwritten {
		uids = append(uids, uid)
	}
	return uids
}

// all are the machines that are not written yet.
func (n *notes) all() []v1alpha1.NodeIdentity {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []v1alpha1.NodeIdentity
	for _, r := range n.unwritten {
		all = append(all, r.machines...)
	}
	return all
}

// unseenNode is the unseen Node of the name. It begins again if it was not looked for recently.
func (n *notes) unseenNode(name string, now time.Time) *unseen {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.unseen, func(_ string, u *unseen) bool { return now.Sub(u.looked).Abs() > maxGap })
	if n.unseen == nil {
		n.unseen = map[string]*unseen{}
	}
	if n.unseen[name] == nil {
		n.unseen[name] = &unseen{object: v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: "unseen Node " + name},
			Spec: v1alpha1.GuardedNodeSpec{NodeName: name, Machines: make([]v1alpha1.GuardedMachine, 1)}}}
	}
	return n.unseen[name]
}

// isUnseen says whether no Node of the name has reported since unseenNode.
func (n *notes) isUnseen(name string, u *unseen) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unseen[name] == u
}

// wrote drops the first reports of a Node UID, which are written.
func (n *notes) wrote(uid types.UID, count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.unwritten[uid]
	if known.machines = known.machines[min(count, len(known.machines)):]; len(known.machines) == 0 {
		delete(n.unwritten, uid)
		return
	}
	n.unwritten[uid] = known
}
