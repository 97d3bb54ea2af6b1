// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/explain"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
)

// shared is what is the same for all UIDs of a report, read once.
type shared struct {
	configuration *Configuration
	records       release.Fact[[]v1alpha1.IPAllocation]
	entries       release.Fact[ipam.Snapshot]
	policies      release.Fact[reportpolicy.Judgement]
	guarded       release.Fact[[]v1alpha1.GuardedNode]
	unserved      inspect.Unserved
}

// ExplainPod reads the facts of every UID that has, or had, the name of a pod: the object, and the records of those that are gone.
func (c *Cluster) ExplainPod(ctx context.Context, ref ipam.PodRef) ([]*explain.Facts, error) {
	pod, err := c.podOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	records, err := c.Records(ctx, client.MatchingFields{"spec.podNamespace": ref.Namespace, "spec.podName": ref.Name})
	if err != nil && !isNotServed(err) {
		return nil, err
	}
	if pod == nil && len(records) == 0 {
		return nil, fmt.Errorf("there is no pod %s, and no record of an earlier one; "+
			"a pod that is gone has a record only while an address of it is held; name its UID or the record if you know one (kubectl get ipa)", ref)
	}
	s, err := c.share(ctx)
	if err != nil {
		return nil, err
	}
	var all []*explain.Facts
	if pod != nil {
		all = append(all, c.factsOf(ctx, s, pod.UID, ref, pod))
	}
	for i := range records {
		if pod == nil || records[i].Name != string(pod.UID) {
			all = append(all, c.factsOf(ctx, s, types.UID(records[i].Name), ref, pod))
		}
	}
	return all, nil
}

// ExplainRecord reads the facts of the UID, or of the orphan, of the record with that name.
func (c *Cluster) ExplainRecord(ctx context.Context, name string) (*explain.Facts, error) {
	var record v1alpha1.IPAllocation
	found, err := c.get(ctx, client.ObjectKey{Name: name}, &record, inspect.RecordResource)
	if err == nil && !found {
		found, err = c.recordByPrefix(ctx, name, &record)
	}
	if isNotServed(err) {
		return nil, fmt.Errorf("there is no IPAllocation %s; %s, so that there are no records; name a pod that still exists as pod/NAME", name, inspect.NoHoldfast)
	}
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("there is no IPAllocation %s; nothing of that UID is held; name a pod that still exists as pod/NAME", name)
	}
	s, err := c.share(ctx)
	if err != nil {
		return nil, err
	}
	return c.factsOfRecord(ctx, s, &record)
}

// factsOfRecord are the facts of the UID, or the orphan, of a record.
func (c *Cluster) factsOfRecord(ctx context.Context, s shared, record *v1alpha1.IPAllocation) (*explain.Facts, error) {
	ref := ipam.PodRef{Namespace: record.Spec.PodNamespace, Name: record.Spec.PodName}
	pod, err := c.podOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	return c.factsOf(ctx, s, types.UID(record.Name), ref, pod), nil
}

// recordByPrefix finds the one record with a name that begins so: lists show the beginning of an orphan's name.
func (c *Cluster) recordByPrefix(ctx context.Context, prefix string, record *v1alpha1.IPAllocation) (found bool, err error) {
	records, err := c.Records(ctx)
	if err != nil {
		return false, err
	}
	for i := range records {
		switch {
		case !strings.HasPrefix(records[i].Name, prefix):
		case found:
			return false, fmt.Errorf("the names of several records begin with %s, %s and %s among them: give more of the name", prefix, record.Name, records[i].Name)
		default:
			found, *record = true, records[i]
		}
	}
	return found, nil
}

// podOf reads a pod; nil if there is none, or no name.
func (c *Cluster) podOf(ctx context.Context, ref ipam.PodRef) (*corev1.Pod, error) {
	if ref.Name == "" {
		return nil, nil
	}
	return read[corev1.Pod](ctx, c, client.ObjectKey(ref), "pods")
}

// share reads what is the same for all UIDs. What may not be read is an unknown fact that names the missing right; the table holds on it.
func (c *Cluster) share(ctx context.Context) (shared, error) {
	configuration, err := c.Configuration(ctx)
	if err != nil {
		return shared{}, err
	}
	s := shared{configuration: configuration}
	if backend, pools, err := c.Pools(ctx); err != nil {
		s.entries = release.Unknown[ipam.Snapshot](err.Error())
	} else {
		s.entries, s.unserved.Pools = release.Known(backend.All()), !pools
	}
	c.readPolicies(ctx, &s)
	s.guarded = release.FactOf(c.GuardedNodes(ctx))
	records, err := c.Records(ctx)
	s.records = release.FactOf(records, orUnserved(err, &s.unserved.Records))
	return s, ctx.Err()
}

// readPolicies reads since when policies make a kubelet's report evidence. Without agents none is needed.
func (c *Cluster) readPolicies(ctx context.Context, s *shared) {
	if config.Evidence(s.configuration.ManagerConfiguration) == release.EvidenceAgent {
		found, err := c.admissionPolicies(ctx)
		s.policies = release.FactOf(reportpolicy.Evidence(found.Policies, found.Bindings), err)
	}
}

// factsOf are the facts of one UID; pod is the one that has the name now.
func (c *Cluster) factsOf(ctx context.Context, s shared, uid types.UID, ref ipam.PodRef, pod *corev1.Pod) *explain.Facts {
	f := &explain.Facts{UID: uid, Ref: ref, Pod: release.Absent[*corev1.Pod](), Entries: s.entries, Policies: s.policies, GuardedNodes: s.guarded,
		Evidence: config.Evidence(s.configuration.ManagerConfiguration), Settings: config.Settings(s.configuration.ManagerConfiguration),
		GuardClusterNetwork: *s.configuration.Protection.GuardClusterNetwork, ConfigurationSource: s.configuration.Source, Unserved: s.unserved}
	node := ""
	switch {
	case pod != nil && pod.UID == uid:
		f.Pod, node = release.Known(pod), pod.Spec.NodeName
	case pod != nil:
		f.SameName = pod
	}
	f.Records = s.records
	if all := s.records.Get(); s.records.IsKnown() {
		isOwn := func(r v1alpha1.IPAllocation) bool { return r.Name == string(uid) }
		if i := slices.IndexFunc(all, isOwn); i >= 0 {
			f.Record = all[i].DeepCopy()
		}
		f.Records = release.Known(slices.DeleteFunc(slices.Clone(all), isOwn))
	}
	if node == "" && f.Record != nil {
		node = f.Record.Spec.NodeName
	}
	if node != "" {
		f.Node = orAbsent(read[corev1.Node](ctx, c, client.ObjectKey{Name: node}, "nodes"))
	}
	f.Events = c.eventsAbout(ctx, f)
	return f
}

// eventsAbout are Holdfast's events about the pod UID and its record, oldest first. An event in their place says that they may not be read.
func (c *Cluster) eventsAbout(ctx context.Context, f *explain.Facts) []inspect.Event {
	uids := []types.UID{f.UID}
	if f.Record != nil {
		uids = append(uids, f.Record.UID)
	}
	var ours []inspect.Event
	for _, uid := range uids {
		events, err := c.Events(ctx, client.MatchingFields{"involvedObject.uid": string(uid)})
		if err != nil {
			if _, forbidden := errors.AsType[*inspect.ForbiddenError](err); forbidden {
				return []inspect.Event{{Type: "Warning", Reason: "Forbidden", Note: err.Error(), Kind: "Event", Name: "*"}}
			}
			return nil
		}
		for i := range events {
			if strings.Contains(events[i].Reporter, "holdfast") {
				ours = append(ours, events[i])
			}
		}
	}
	slices.SortStableFunc(ours, func(x, y inspect.Event) int { return x.Last.Compare(y.Last) })
	return ours
}
