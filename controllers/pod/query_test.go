// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/facts"
	"github.com/holdfast-dev/holdfast/internal/ipam"
	"github.com/holdfast-dev/holdfast/internal/release"
	"github.com/holdfast-dev/holdfast/internal/testing/onepod"
)

// newLife is the old pod, live and with its address in the network-status, on a node with an agent.
func newLife(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	f := newWorld(t, append(objects, onepod.PodOf("old", "10.0.0.5"))...)
	f.r.options.Evidence = release.EvidenceAgent
	return f
}

// readySince is a Node that became Ready a duration before now.
func readySince(node *corev1.Node, before time.Duration) *corev1.Node {
	node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(onepod.Now.Add(-before))
	return node
}

// queried are the sandboxes about which the node of the old pod is queried.
func (f *world) queried() []string {
	f.Helper()
	var ids []string
	for _, q := range f.QueriesAbout("old") {
		ids = append(ids, q.SandboxID)
	}
	return ids
}

// TestALivePodIsQueriedAboutAfterAFailedRead: no event repeats the end of the delay after a reboot.
func TestALivePodIsQueriedAboutAfterAFailedRead(t *testing.T) {
	for _, kind := range []string{"pods", "node", "guardednodes"} {
		t.Run(kind, func(t *testing.T) {
			f := newLife(t, onepod.RecordOfOld(onepod.OldMachine()), rebooted(readySince(onepod.Node("node", "node-1", "m1"), time.Hour)),
				&v1alpha1.GuardedNode{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: v1alpha1.GuardedNodeSpec{Queries: []v1alpha1.SandboxQuery{
					{Record: "old", SandboxID: "another-sandbox", Epoch: 1, Purpose: v1alpha1.PurposeRelease}}}})
			f.FailReads = kind
			if err := f.after(0); err == nil {
				t.Error("what was to be read before the query could not be, and there is no retry")
			}
			if queried := f.queried(); slices.Contains(queried, "old-sandbox") {
				t.Errorf("queried about %v on what was not read", queried)
			}
			f.FailReads = ""
			if err := f.after(time.Second); err != nil {
				t.Fatal(err)
			}
			if queried := f.queried(); !slices.Contains(queried, "old-sandbox") {
				t.Errorf("queried about %v; expected old-sandbox among them", queried)
			}
		})
	}
}

// TestI5ARecordLosesNothingOfAPodThatCannotBeRead: the pool has no entry of its address, which the pod may still show.
func TestI5ARecordLosesNothingOfAPodThatCannotBeRead(t *testing.T) {
	f := newLife(t, onepod.RecordOfOld(onepod.OldMachine()), onepod.Node("node", "node-1", "m1"))
	f.Pool.Entries = nil
	f.FailReads = "pods"
	if err := f.after(0); err == nil {
		t.Error("the pod could not be read, and there is no retry")
	}
	if diff := cmp.Diff(onepod.RecordOfOld(onepod.OldMachine()).Spec, f.Record().Spec); diff != "" {
		t.Errorf("the record, on an unread pod (-want +got):\n%s", diff)
	}
	f.FailReads = ""
	if err := f.after(time.Second); err != nil {
		t.Fatal(err)
	}
	if kept := len(f.Record().Spec.Addresses); kept != 1 {
		t.Errorf("%d addresses are left of the one that the pod shows", kept)
	}
}

// TestI3AMissingResponseCountsOnlyWhileOneCouldArrive: while the API server is away, none can.
func TestI3AMissingResponseCountsOnlyWhileOneCouldArrive(t *testing.T) {
	tainted := notReady(onepod.Node("node", "node-1", "m1"))
	tainted.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()), tainted)
	f.r.options.Evidence, f.Pool.Entries = release.EvidenceAgent, onepod.HeldByOld()
	f.holdsUntil(0)
	f.reachedSince = onepod.Now.Add(onepod.Settings.ReleaseDelay)
	f.holdsUntil(onepod.Settings.ReleaseDelay, 2*onepod.Settings.ReleaseDelay-time.Second)
	f.releasesAfter(2 * onepod.Settings.ReleaseDelay)
}

func TestAQueryIsToTheNodeThatWasReadLive(t *testing.T) {
	tainted := notReady(onepod.Node("node", "node-1", "m1"))
	tainted.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	for name, tc := range map[string]struct {
		pod     *corev1.Pod
		node    *corev1.Node
		entries []ipam.Entry
		want    v1alpha1.SandboxQuery
	}{
		"about the sandbox of a deleted pod": {onepod.DeletedPod(), onepod.Node("node", "node-1", "m1"), onepod.HeldByOld(),
			v1alpha1.SandboxQuery{SandboxID: "old-sandbox", BootID: "m1-boot", Purpose: v1alpha1.PurposeRelease}},
		"about one of a node that is out of service": {onepod.DeletedPod(), tainted, onepod.HeldByOld(),
			v1alpha1.SandboxQuery{SandboxID: "old-sandbox", BootID: "m1-boot", Purpose: v1alpha1.PurposeRelease, OutOfService: true}},
		"about one of a pod that lives": {onepod.PodOf("old", "10.0.0.5"), rebooted(readySince(onepod.Node("node", "node-1", "m1"), time.Hour)), onepod.HeldByOld(),
			v1alpha1.SandboxQuery{SandboxID: "old-sandbox", BootID: rebooted(onepod.Node("node", "node-1", "m1")).Status.NodeInfo.BootID, Purpose: v1alpha1.PurposeRewrite}},
		"about any sandbox of a pod that holds nothing": {onepod.DeletedPod(), onepod.Node("node", "node-1", "m1"), nil,
			v1alpha1.SandboxQuery{SandboxID: v1alpha1.AnySandbox, BootID: "m1-boot", Purpose: v1alpha1.PurposeRelease}},
	} {
		t.Run(name, func(t *testing.T) {
			record := onepod.RecordOfOld(onepod.OldMachine())
			if tc.entries == nil {
				record.Spec.Sandboxes, record.Spec.Addresses = nil, nil
				tc.pod.Annotations = nil
			}
			f := newWorld(t, tc.pod, record, tc.node)
			f.r.options.Evidence, f.Pool.Entries = release.EvidenceAgent, tc.entries
			if err := f.after(0); err != nil {
				t.Fatal(err)
			}
			want := []onepod.StandingQuery{{NodeUID: "node-1", SandboxQuery: tc.want}}
			want[0].Record, want[0].Epoch = "old", 1
			if diff := cmp.Diff(want, f.QueriesAbout("old"), cmpopts.IgnoreTypes(metav1.Time{})); diff != "" {
				t.Errorf("queries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAQueryThatCannotBeWrittenIsExplained(t *testing.T) {
	f := withAgent(t, onepod.DeletedPod(), onepod.Node("node", "node-1", "m1"))
	f.Pool.Entries = onepod.HeldByOld()
	f.r.options.Queries.Failed("node-1", errors.New("a webhook refuses it"))
	for range 2 { // a failure is explained once it has lasted
		if _, err := f.r.Reconcile(t.Context(), "old"); err == nil || !strings.Contains(err.Error(), "a webhook refuses it") || len(f.Pool.Released) > 0 {
			t.Errorf("released %v, %v; expected to be held because of the refusal", f.Pool.Released, err)
		}
		f.Clock.SetTime(f.Clock.Now().Add(reportUnreadAfter))
	}
	f.isExplained("while the query cannot be written", v1alpha1.ReasonObservationFailed, 1)
}

// TestR5APendingQueryDoesNotStand: a response to it before the write releases nothing.
func TestR5APendingQueryDoesNotStand(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()), onepod.Gone(), onepod.Node("node", "node-1", "m1"))
	f.r.options.Evidence = release.EvidenceAgent
	read, err := f.r.options.Queries.Cached(t.Context(), f.Client, "old")
	if err != nil {
		t.Fatal(err)
	}
	f.r.options.Queries.Make(&read, "node-1", v1alpha1.SandboxQuery{SandboxID: "old-sandbox", BootID: "m1-boot", Purpose: v1alpha1.PurposeRelease})
	f.holdsUntil(0)
	if q := f.QueriesAbout("old"); len(q) != 1 || q[0].Epoch != 2 {
		t.Fatalf("queries %+v; expected one with another epoch", q)
	}
	f.holdsUntil(time.Second)
	f.respond("old-sandbox", v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, "")
	if err := f.after(2 * time.Second); err != nil || len(f.Pool.Released) == 0 {
		t.Errorf("released %v, %v; expected the address by the response to the query that stands", f.Pool.Released, err)
	}
}

// TestTheLastReportOfTheRecordedNodeIsKept: another machine may have the name. A query to any other earlier Node is withdrawn.
func TestTheLastReportOfTheRecordedNodeIsKept(t *testing.T) {
	record, other := onepod.RecordOfOld(onepod.OldMachine()), onepod.Gone()
	other.Name = "node-0"
	f := newWorld(t, onepod.DeletedPod(), record, onepod.Gone(), other, onepod.Node("node", "node-1", "m1"))
	f.r.options.Evidence = release.EvidenceAgent
	f.r.options.Settings.ReleaseDelay = time.Hour
	v, err := f.r.observe(t.Context(), "old", true)
	if err != nil {
		t.Fatal(err)
	}
	v.node = release.Known(facts.Node(onepod.Node("node", "node-2", "m1")))
	if _, err := f.r.confirm(t.Context(), v, release.Decision{Sandboxes: []string{"old-sandbox"}, Then: &release.Decision{Action: release.Wait}}); err != nil {
		t.Fatal(err)
	}
	f.WriteQueries()
	var nodes []types.UID
	for _, q := range f.QueriesAbout("old") {
		nodes = append(nodes, q.NodeUID)
	}
	if diff := cmp.Diff([]types.UID{"node-1", "node-2"}, nodes); diff != "" {
		t.Errorf("queries to (-want +got):\n%s", diff)
	}
}

// TestR11ALivePassReadsTheReportThatTheCacheLacks: it holds the address of a pod on a machine that is gone.
func TestR11ALivePassReadsTheReportThatTheCacheLacks(t *testing.T) {
	for name, verdict := range map[string]v1alpha1.Verdict{"that the sandbox is not gone": v1alpha1.VerdictDoNotRelease, "that it is": v1alpha1.VerdictReadyForRelease} {
		t.Run(name, func(t *testing.T) {
			guarded := onepod.Gone()
			guarded.Status.Responses[0].Verdict = verdict
			f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()), guarded)
			f.r.options.Evidence = release.EvidenceAgent
			f.r.client = interceptor.NewClient(f.Truth, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
				if _, isGuarded := into.(*v1alpha1.GuardedNodeList); isGuarded {
					return nil // the cache does not have it yet
				}
				return c.List(ctx, into, opts...)
			}})
			f.holdsUntil(0)
			if verdict == v1alpha1.VerdictReadyForRelease {
				f.releasesAfter(onepod.NodeGoneDelay)
			} else {
				f.holdsUntil(onepod.NodeGoneDelay, 2*onepod.NodeGoneDelay)
			}
		})
	}
}

// TestR11ACacheThatShowsThePodAliveWithdrawsNoReport: once the Node is deleted, no agent can be queried again.
func TestR11ACacheThatShowsThePodAliveWithdrawsNoReport(t *testing.T) {
	guarded := onepod.Gone()
	guarded.Status.Responses[0].Verdict = v1alpha1.VerdictDoNotRelease
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()), guarded)
	f.r.options.Evidence = release.EvidenceAgent
	late := true
	f.r.client = interceptor.NewClient(f.Truth, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
		err := c.Get(ctx, key, into, opts...)
		if pod, isPod := into.(*corev1.Pod); isPod && late && err == nil {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = nil, nil
		}
		return err
	}, List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, into, opts...)
		if pods, arePods := into.(*corev1.PodList); arePods && late {
			for i := range pods.Items {
				pods.Items[i].DeletionTimestamp, pods.Items[i].DeletionGracePeriodSeconds = nil, nil
			}
		}
		return err
	}})
	f.holdsUntil(0)
	f.WriteQueries()
	if left := f.QueriesAbout("old"); len(left) != 1 {
		t.Fatalf("queries that stand: %v; expected the one that holds the address by its response", left)
	}
	late = false
	f.holdsUntil(onepod.NodeGoneDelay, 2*onepod.NodeGoneDelay)
}

// TestR11APassThatCannotReadAReportReleasesNothing: the delay of a machine is over, and its GuardedNode cannot be read.
func TestR11APassThatCannotReadAReportReleasesNothing(t *testing.T) {
	f := newWorld(t, onepod.DeletedPod(), onepod.RecordOfOld(onepod.OldMachine()))
	f.r.options.Evidence = release.EvidenceAgent
	f.holdsUntil(0)
	f.FailReads = "guardednodes"
	if err := f.after(onepod.NodeGoneDelay); err == nil || len(f.Pool.Released) > 0 {
		t.Fatalf("released %v, %v; expected a retry", f.Pool.Released, err)
	}
	f.FailReads = ""
	f.releasesAfter(onepod.NodeGoneDelay + time.Second)
}

// TestAnOrdinaryPodCostsNoReadOfAGuardedNode, and neither does one without entries.
func TestAnOrdinaryPodCostsNoReadOfAGuardedNode(t *testing.T) {
	finished := onepod.FinishedPod()
	for name, tc := range map[string]struct {
		view view
		want []types.UID
	}{
		"it lives":                     {view{podFact: release.Known(release.Pod{})}, nil},
		"it is deleted":                {view{podFact: release.Known(release.Pod{Deleting: true})}, []types.UID{"node-1"}},
		"its kubelet terminated it":    {view{pod: finished, podFact: release.Known(facts.Pod(finished, release.EndingFinished))}, []types.UID{"node-1"}},
		"it is gone":                   {view{podFact: release.Absent[release.Pod]()}, []types.UID{"node-1"}},
		"it cannot be read":            {view{podFact: release.Unknown[release.Pod]("no API server")}, []types.UID{"node-1"}},
		"it is gone and holds nothing": {view{podFact: release.Absent[release.Pod](), heldRead: release.Known(struct{}{})}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := tc.view
			v.record = onepod.RecordOfOld(onepod.OldMachine())
			if !v.heldRead.IsKnown() {
				v.held = []facts.Held{{Entry: onepod.HeldByOld()[0]}}
			}
			if diff := cmp.Diff(tc.want, v.queriedNodes()); diff != "" {
				t.Errorf("GuardedNodes to read (-want +got):\n%s", diff)
			}
		})
	}
}

func TestQueriesThatAreOverAreWithdrawn(t *testing.T) {
	for name, tc := range map[string]struct {
		deleting bool
		held     int
		keeps    bool
		want     []string
	}{
		"about any sandbox of a pod that holds nothing":    {true, 0, false, []string{"here", v1alpha1.AnySandbox}},
		"about any sandbox of a pod that holds something":  {true, 1, false, []string{"here"}},
		"about any sandbox of a pod that is not deleted":   {false, 0, false, []string{"here"}},
		"all, of a pod that lives and needs no report now": {false, 1, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := &view{podFact: release.Known(release.Pod{Deleting: tc.deleting}), held: make([]facts.Held, tc.held)}
			d := release.Decision{}
			if tc.keeps {
				d.Action = release.Keep
			}
			var left []string
			for _, id := range []string{"here", v1alpha1.AnySandbox} {
				if !v.isVoid(d, facts.QueryKey{NodeUID: "node-1", SandboxID: id}) {
					left = append(left, id)
				}
			}
			if diff := cmp.Diff(tc.want, left); diff != "" {
				t.Errorf("queries (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheReportOfAnAgentIsRecorded before a decision rests on it, because the response is removed with its query.
func TestTheReportOfAnAgentIsRecorded(t *testing.T) {
	for pod, want := range map[types.UID]v1alpha1.Attribution{"old": v1alpha1.AttributionAgentSeen, "": v1alpha1.AttributionObservedAdd} {
		t.Run("seen with the UID "+string(pod), func(t *testing.T) {
			record, guarded := onepod.RecordOfOld(onepod.OldMachine()), onepod.Gone()
			record.Spec.Sandboxes[0].Attribution = v1alpha1.AttributionObservedAdd
			guarded.Status.Responses[0].PodUID, guarded.Status.Responses[0].Verdict = pod, v1alpha1.VerdictDoNotRelease
			f := newWorld(t, onepod.DeletedPod(), record, guarded, onepod.Node("node", "node-1", "m1"))
			f.r.options.Evidence = release.EvidenceAgent
			f.holdsUntil(0)
			if got := f.Record().Spec.Sandboxes[0].Attribution; got != want {
				t.Errorf("attribution %s, want %s", got, want)
			}
		})
	}
}
