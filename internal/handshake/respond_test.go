// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// queryOf is a query to boot "boot" in its third epoch, with a change.
func queryOf(change func(*v1alpha1.SandboxQuery)) v1alpha1.SandboxQuery {
	q := v1alpha1.SandboxQuery{Record: string(web.UID), SandboxID: id, BootID: "boot", Epoch: 3, Purpose: v1alpha1.PurposeRelease}
	if change != nil {
		change(&q)
	}
	return q
}

// given is a response to queryOf(nil) in boot "boot", an hour ago, with a change.
func given(verdict v1alpha1.Verdict, reason v1alpha1.Reason, change func(*v1alpha1.SandboxResponse)) *v1alpha1.SandboxResponse {
	r := &v1alpha1.SandboxResponse{Record: string(web.UID), SandboxID: id, BootID: "boot", Epoch: 3, Verdict: verdict, Reason: string(reason), PodUID: web.UID,
		Time: metav1.NewTime(start.Add(-time.Hour))}
	if change != nil {
		change(r)
	}
	return r
}

func TestAQueryIsForOneBoot(t *testing.T) {
	for boot, want := range map[string]bool{"boot": true, "earlier": false, "": false, "BOOT": false} {
		q := queryOf(func(q *v1alpha1.SandboxQuery) { q.BootID = boot })
		if got := Foreign(q, "boot"); (got == "") != want {
			t.Errorf("boot %q is foreign: %q", boot, got)
		}
	}
	if Foreign(queryOf(func(q *v1alpha1.SandboxQuery) { q.BootID = "" }), "") == "" {
		t.Error("a query without a boot is for an agent without a boot")
	}
}

func TestReadyForReleaseIsFinalForItsQuery(t *testing.T) {
	got := map[string]bool{}
	for name, change := range map[string]func(*v1alpha1.SandboxQuery, *v1alpha1.SandboxResponse){
		"the same":                   func(*v1alpha1.SandboxQuery, *v1alpha1.SandboxResponse) {},
		"DoNotRelease":               func(_ *v1alpha1.SandboxQuery, r *v1alpha1.SandboxResponse) { r.Verdict = v1alpha1.VerdictDoNotRelease },
		"another epoch":              func(q *v1alpha1.SandboxQuery, _ *v1alpha1.SandboxResponse) { q.Epoch++ },
		"another boot":               func(q *v1alpha1.SandboxQuery, _ *v1alpha1.SandboxResponse) { q.BootID = "next" },
		"a response without a boot":  func(_ *v1alpha1.SandboxQuery, r *v1alpha1.SandboxResponse) { r.BootID = "" },
		"neither with a boot":        func(q *v1alpha1.SandboxQuery, r *v1alpha1.SandboxResponse) { q.BootID, r.BootID = "", "" },
		"another record":             func(_ *v1alpha1.SandboxQuery, r *v1alpha1.SandboxResponse) { r.Record = "b" },
		"another sandbox":            func(_ *v1alpha1.SandboxQuery, r *v1alpha1.SandboxResponse) { r.SandboxID = "b" },
		"of an out-of-service Node":  func(q *v1alpha1.SandboxQuery, _ *v1alpha1.SandboxResponse) { q.OutOfService = true },
		"for another purpose":        func(q *v1alpha1.SandboxQuery, _ *v1alpha1.SandboxResponse) { q.Purpose = v1alpha1.PurposeRewrite },
		"a response of another time": func(_ *v1alpha1.SandboxQuery, r *v1alpha1.SandboxResponse) { r.Reason = "Other" },
	} {
		q, r := queryOf(nil), given(v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, nil)
		change(&q, r)
		got[name] = Final(q, *r)
	}
	want := map[string]bool{"the same": true, "DoNotRelease": false, "another epoch": false, "another boot": false, "a response without a boot": false,
		"neither with a boot": false, "another record": false, "another sandbox": false, "of an out-of-service Node": true, "for another purpose": true,
		"a response of another time": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestResponse(t *testing.T) {
	now := start.Add(time.Minute)
	unreachable := Outcome{Kind: NoResponse, Reason: v1alpha1.ReasonRuntimeUnreachable, Message: "no socket"}
	outcome := func(verdict v1alpha1.Verdict, reason v1alpha1.Reason) Outcome {
		return Outcome{Kind: Decided, Verdict: verdict, Reason: reason, PodUID: web.UID, Time: start}
	}
	ready, absent := outcome(v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady), outcome(v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent)
	succeeded := outcome(v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReplaced)
	succeeded.SuccessorID = "next"
	held := given(v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonSandboxReady, nil)
	final := given(v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, nil)
	older := given(v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, func(r *v1alpha1.SandboxResponse) { r.Epoch = 2 })
	rebooted := given(v1alpha1.VerdictReadyForRelease, v1alpha1.ReasonSandboxAbsent, func(r *v1alpha1.SandboxResponse) { r.BootID = "earlier" })
	outOfService := queryOf(func(q *v1alpha1.SandboxQuery) { q.OutOfService = true })
	foreign := queryOf(func(q *v1alpha1.SandboxQuery) { q.OutOfService, q.BootID = true, "earlier" })
	noBoot := queryOf(func(q *v1alpha1.SandboxQuery) { q.OutOfService, q.BootID = true, "" })
	// wrote is a new response to a query.
	wrote := func(w Outcome, at time.Time) *v1alpha1.SandboxResponse {
		return given(w.Verdict, w.Reason, func(r *v1alpha1.SandboxResponse) {
			r.PodUID, r.SuccessorID, r.Time = w.PodUID, w.SuccessorID, metav1.NewTime(at)
		})
	}
	// holds is one without a list.
	holds := func(pod Pod, at time.Time) *v1alpha1.SandboxResponse {
		return given(v1alpha1.VerdictDoNotRelease, v1alpha1.ReasonRuntimeUnreachable, func(r *v1alpha1.SandboxResponse) {
			r.PodUID, r.Time = pod.UID, metav1.NewTime(at)
		})
	}
	cases := map[string]struct {
		query   v1alpha1.SandboxQuery
		outcome Outcome
		given   *v1alpha1.SandboxResponse
		want    *v1alpha1.SandboxResponse
	}{
		"the first":              {queryOf(nil), ready, nil, wrote(ready, start)},
		"the successor is named": {queryOf(nil), succeeded, nil, wrote(succeeded, start)},
		"another time of the list alone is not written":                 {queryOf(nil), ready, held, held},
		"another reason is written":                                     {queryOf(nil), succeeded, held, wrote(succeeded, start)},
		"DoNotRelease is not final":                                     {queryOf(nil), absent, held, wrote(absent, start)},
		"ReadyForRelease is":                                            {queryOf(nil), ready, final, final},
		"not for another epoch":                                         {queryOf(nil), ready, older, wrote(ready, start)},
		"nor for another boot":                                          {queryOf(nil), ready, rebooted, wrote(ready, start)},
		"an unchanged verdict in another epoch is written":              {queryOf(nil), absent, older, wrote(absent, start)},
		"without a list there is none":                                  {queryOf(nil), unreachable, nil, nil},
		"the one that was given stays":                                  {queryOf(nil), unreachable, held, held},
		"also one of an earlier epoch":                                  {queryOf(nil), unreachable, older, older},
		"or of an earlier boot":                                         {queryOf(nil), unreachable, rebooted, rebooted},
		"until there is a list":                                         {queryOf(nil), Outcome{Kind: Pending}, older, older},
		"an out-of-service Node whose runtime cannot be read is alive":  {outOfService, unreachable, nil, holds(Pod{}, now)},
		"its agent keeps with which pod it saw the sandbox":             {outOfService, unreachable, held, holds(web, now)},
		"in this boot":                                                  {outOfService, unreachable, rebooted, holds(Pod{}, now)},
		"a final response of it stays":                                  {outOfService, unreachable, final, final},
		"another time alone is not written there either":                {outOfService, unreachable, holds(web, start), holds(web, start)},
		"before the first list there is no response":                    {outOfService, Outcome{Kind: Pending}, nil, nil},
		"a list of an out-of-service Node counts":                       {outOfService, absent, nil, wrote(absent, start)},
		"an agent in another boot does not respond":                     {foreign, unreachable, nil, nil},
		"nor does it take back the response from the boot of the query": {foreign, unreachable, rebooted, rebooted},
		"a query without a boot gets no response":                       {noBoot, unreachable, nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Response(tc.query, tc.outcome, tc.given, "boot", now)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
