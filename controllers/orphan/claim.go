// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/index"
	"github.com/holdfast-dev/holdfast/controllers/liveness"
	"github.com/holdfast-dev/holdfast/controllers/records"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/nodelife"
	"github.com/holdfast-dev/holdfast/internal/orphan"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// addClaims reads the claims of nodes to a sandbox without a node. Each is evidence that the node has, or had, the sandbox.
func (r *Reconciler) addClaims(ctx context.Context, v *view, seen *reports) error {
	if v.record == nil || v.addressed() {
		return nil
	}
	var claims []orphan.Claim
	for i := range seen.claims[v.id] {
		if seen.claims[v.id][i].isOfAnEarlierNode(seen.nodes.Get()) {
			continue
		}
		claim, err := r.claimOf(ctx, v, &seen.claims[v.id][i], seen.nodes.Get())
		if err != nil {
			return err
		}
		again := slices.IndexFunc(claims, func(c orphan.Claim) bool { return c.Live && claim.Live && c.NodeName == claim.NodeName })
		if again < 0 {
			claims = append(claims, claim)
		} else if claims[again].PodUID == "" {
			claims[again] = claim // one machine, under its old and its new Node UID
		}
	}
	v.facts.Record = release.Known(orphan.Record{DisownedBy: v.disownedBy, Claims: claims})
	return nil
}

// isOfAnEarlierNode reports whether a claim for another sandbox of the pod is of a Node that is not there any more, so that no agent ends it. A machine that
// registered again claims anew, and one without a Node has to be gone.
func (c *nodeClaim) isOfAnEarlierNode(nodes []orphan.Node) bool {
	return c.PodUID == "" && c.Reason == string(v1alpha1.ReasonSandboxReplaced) && !slices.ContainsFunc(nodes, func(n orphan.Node) bool {
		return n.Live.IsKnown() && n.Live.Get().NodeUID == c.nodeUID
	})
}

// claimOf finds the claimant: one of the nodes, by its UID or as the same machine, or a deleted one. The nodes are those of which the responses count: a cached
// list may lack the Node under which a machine responds, and its claim would not contradict another one.
func (r *Reconciler) claimOf(ctx context.Context, v *view, of *nodeClaim, nodes []orphan.Node) (claim orphan.Claim, err error) {
	claim = orphan.Claim{NodeUID: of.nodeUID, BootID: of.BootID, PodUID: of.PodUID, Pod: release.Absent[string]()}
	if claim.NodeName, claim.Live, err = r.nodeOfClaim(ctx, nodes, of); err != nil {
		return claim, err
	}
	if of.PodUID == "" || claim.NodeName == "" { // without a Node or machine the node of the pod cannot be checked
		return claim, nil
	}
	pod, err := r.podOfUID(ctx, v, of.PodUID)
	switch {
	case err != nil:
		claim.Pod = release.Unknown[string](err.Error())
	case pod == nil:
	case pod.Spec.NodeName != claim.NodeName:
		claim.Pod = release.Unknown[string](fmt.Sprintf("pod %s/%s is on node %q", pod.Namespace, pod.Name, pod.Spec.NodeName))
	default:
		claim.Pod = release.Known(pod.Namespace + "/" + pod.Name)
	}
	return claim, nil
}

// nodeOfClaim is the name of the Node that has the claimant's machine now; live says that its object exists. Without a Node of the claim's UID
// it is the only one of the same machine, by all known IDs and never by the boot ID alone.
func (r *Reconciler) nodeOfClaim(ctx context.Context, nodes []orphan.Node, of *nodeClaim) (name string, live bool, err error) {
	for i := range nodes {
		if nodes[i].Live.IsKnown() && nodes[i].Live.Get().NodeUID == of.nodeUID {
			return nodes[i].Name, true, nil
		}
	}
	name, machine, err := r.machineOf(ctx, of.nodeUID, of.BootID)
	if err != nil || machine.UID == "" {
		return "", false, err
	}
	for i := range nodes {
		if !nodes[i].Live.IsKnown() || !orphan.Same(machine, nodes[i].Live.Get().Machine) {
			continue
		}
		if live {
			return "", false, nil
		}
		name, live = nodes[i].Name, true
	}
	return name, live, nil
}

// machineOf gives the node name and the machine of a Node UID in a boot, from the GuardedNode; without that boot, the only machine of the UID.
func (r *Reconciler) machineOf(ctx context.Context, uid types.UID, bootID string) (name string, machine v1alpha1.NodeIdentity, err error) {
	var object v1alpha1.GuardedNode
	err = r.client.Get(ctx, types.NamespacedName{Name: string(uid)}, &object)
	if client.IgnoreNotFound(err) != nil {
		return "", machine, fmt.Errorf("reading GuardedNode %s from the cache: %w", uid, err)
	}
	machine, _ = nodelife.MachineIn(&object, bootID)
	return object.Spec.NodeName, machine, nil
}

// podOfUID reads the pod of a UID live, by the names in the entry and in the cache; nil if there is none.
func (r *Reconciler) podOfUID(ctx context.Context, v *view, uid types.UID) (*corev1.Pod, error) {
	names := []types.NamespacedName{{Namespace: v.record.Spec.PodNamespace, Name: v.record.Spec.PodName}}
	cached, err := index.Pods(ctx, r.client, index.PodUID, string(uid))
	if err != nil {
		return nil, fmt.Errorf("looking up pod UID %s: %w", uid, err)
	}
	for i := range cached {
		names = append(names, client.ObjectKeyFromObject(&cached[i]))
	}
	for _, name := range names {
		if name.Name == "" {
			continue
		}
		var pod corev1.Pod
		err := r.live.Get(ctx, name, &pod)
		if err == nil && pod.UID == uid {
			return &pod, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading pod %s: %w", name, err)
		}
	}
	return nil, nil
}

// observeClaimed observes a sandbox whose node is known, as for a deleted pod. The Node is read after the record, so that a response counts
// only for the machine that the Node then names.
func (r *Reconciler) observeClaimed(ctx context.Context, v *view, pools *livePools) error {
	of := &facts.Read{Evidence: r.options.Evidence, Settings: r.options.Settings, GuardsClusterNetwork: r.options.Rules.GuardClusterNetwork,
		UID: types.UID(v.record.Name), Live: true, Record: v.record, Pod: release.Absent[release.Pod](),
		HeldRead: release.Known(struct{}{})}
	var err error
	if of.Queries, err = r.options.Queries.Live(ctx, r.client, r.live, v.record.Name, nodelife.NamedBy(v.record)); err != nil {
		return err
	}
	of.Queries.Redo(v.disownedBy)
	of.Node = liveness.Node(ctx, r.live, v.record.Spec.NodeName)
	if of.Node.Get().OutOfService {
		of.ReachedSince = r.options.Machines.ReachedSince()
	}
	for _, e := range v.entries {
		of.Held = append(of.Held, facts.Held{Entry: e, Attribution: v1alpha1.AttributionAgentSeen})
	}
	if len(v.entries) == 0 && len(pools.takenOver(v)) > 0 {
		for i := range v.record.Spec.Addresses {
			if key, err := ipam.KeyOf(&v.record.Spec.Addresses[i]); err == nil {
				of.Held = append(of.Held, facts.Held{Entry: ipam.Entry{Key: key}, Attribution: v1alpha1.AttributionAgentSeen, Superseded: true})
			}
		}
	}
	if r.options.Evidence == release.EvidenceAgent {
		if of.PoliciesSince, err = r.options.PoliciesSince(ctx); err != nil {
			return err
		}
	}
	if machines := facts.GoneMachines(of.Node, of.Record); of.NeedsGone(machines) {
		of.Gone = release.FactOf(r.options.Machines.Gone(ctx, of.Record.Spec.NodeName, machines))
	}
	v.claimed = of
	of.Twin, err = r.options.Liveness.Twin(ctx, of.Record, of.Node)
	return err
}

// recordClaimed updates the record after its machine registered again, and then adds the sandbox to the facts.
func (r *Reconciler) recordClaimed(ctx context.Context, v *view) error {
	if v.claimed == nil {
		return nil
	}
	if err := r.followNode(ctx, v.claimed); err != nil {
		return err
	}
	v.record = v.claimed.Record
	observation := v.claimed.Observation()
	if given := v.claimed.Queries.About(string(v.id), v.claimed.Node.Get().NodeUID).Response; given.IsKnown() && given.Get().PodUID != "" {
		observation.UID = given.Get().PodUID // only the node knows the pod
	} else if at := slices.IndexFunc(v.record.Spec.Sandboxes, func(s v1alpha1.SandboxRecord) bool { return s.ID == string(v.id) && s.PodUID != "" }); at >= 0 {
		observation.UID = v.record.Spec.Sandboxes[at].PodUID
	}
	v.facts.Addressed = &observation
	return nil
}

// followNode records that the same machine, in the same boot, has another Node UID, before any decision rests on it.
func (r *Reconciler) followNode(ctx context.Context, of *facts.Read) error {
	record := of.Record.DeepCopy()
	for i := range record.Spec.Sandboxes {
		node := record.Spec.Sandboxes[i].Node
		if node != nil && of.Node.IsKnown() && release.Compare(release.MachineOf(*node), of.Node.Get().Machine) == release.Reregistered {
			log.FromContext(ctx).Info("A machine that claimed a sandbox without an owner registered again; its earlier reports do not count any more", "record", record.Name, "node", record.Spec.NodeName, "before", node.UID, "nodeUID", of.Node.Get().NodeUID)
			node.UID = of.Node.Get().NodeUID
		}
	}
	if equality.Semantic.DeepEqual(record.Spec, of.Record.Spec) {
		return nil
	}
	if err := records.Put(ctx, r.client, record); err != nil {
		return err
	}
	of.Record = record
	return nil
}

// claimant is the machine that has claimed a sandbox, by the live Node or by the GuardedNode for the boot of the claim, and the live Node
// object; nil without one.
func (r *Reconciler) claimant(ctx context.Context, v *view, claim orphan.Claim) (v1alpha1.NodeIdentity, *corev1.Node, error) {
	identity := v1alpha1.NodeIdentity{UID: claim.NodeUID, BootID: claim.BootID}
	_, seen, err := r.machineOf(ctx, claim.NodeUID, identity.BootID)
	if err != nil {
		return identity, nil, err
	}
	if seen.UID != "" && seen.BootID == identity.BootID {
		identity = seen
	}
	node := &corev1.Node{}
	err = r.live.Get(ctx, types.NamespacedName{Name: claim.NodeName}, node)
	switch {
	case apierrors.IsNotFound(err):
		node = nil
	case err != nil:
		return identity, nil, fmt.Errorf("reading Node %s, which has claimed sandbox %s: %w", claim.NodeName, v.id, err)
	case sameBoot(identity, facts.Node(node).Machine):
		return facts.Identity(node), node, nil // also if it registered again under another UID
	}
	// A machine that rebooted since its claim is the same machine: without its IDs it would count as replaced.
	identity.MachineID, identity.SystemUUID = seen.MachineID, seen.SystemUUID
	return identity, node, nil
}

// sameBoot says whether the live Node is the machine of the claim, in the same boot. Only Node UID and boot are compared while the GuardedNode
// does not have that boot.
func sameBoot(claimed v1alpha1.NodeIdentity, live release.Machine) bool {
	if claimed == (v1alpha1.NodeIdentity{UID: live.NodeUID, BootID: live.BootID}) && claimed.BootID != "" {
		return true
	}
	relation := release.Compare(release.MachineOf(claimed), live)
	return relation == release.SameMachine || relation == release.Reregistered
}
