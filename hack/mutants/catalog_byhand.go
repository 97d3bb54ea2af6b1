// SPDX-License-Identifier: Apache-2.0

package main

// What a person does by hand: the plugin, and the uninstallation.
var (
	inByHand         = []string{"./internal/inspect/byhand"}
	inAudit          = []string{"./internal/inspect/audit"}
	inPlugin         = []string{"./cmd/kubectl-holdfast"}
	inKeep           = []string{"./internal/ipam"}
	inPluginSuite    = []string{"./test/integration -ginkgo.label-filter=plugin"}
	inUninstallSuite = []string{"./test/integration -ginkgo.label-filter=uninstall"}
)

var byHandMutants = []mutant{
	{
		rule: "by hand: a release that was refused is taken out of the record again",
		file: "internal/inspect/auditlog/auditlog.go",
		old:  `isUndone && record != ""`,
		new:  `isUndone && record == ""`, by: inPluginSuite,
	},
	{
		rule: "by hand: an orphan's address may be that of a pod of its name that is starting (0306)",
		file: "internal/inspect/byhand/judge.go",
		old:  `		f.heir(c)`,
		new:  `		_ = f.heir`, by: inByHand,
	},
	{
		rule: "by hand: a pod that shows another address does not hold an orphan's (0306)",
		file: "internal/inspect/byhand/judge.go",
		old:  ` && len(facts.Shown(pod)) == 0`,
		new:  ``, by: inByHand,
	},
	{
		rule: "by hand: that a sandbox is alive by now is news beside what was overridden (0306)",
		file: "internal/inspect/byhand/judge.go",
		old:  `(o.Alive || !overridden)`,
		new:  `!overridden`, by: inByHand,
	},
	{
		rule: "by hand: an answered prompt is followed by another look (0306)",
		file: "cmd/kubectl-holdfast/release.go",
		old: `	if asked {
		if err := r.lookAgain(`,
		new: `	if asked && false {
		if err := r.lookAgain(`, by: inPluginSuite,
	},
	{
		rule: "by hand: exit code 5 says that no address was released (0306)",
		file: "cmd/kubectl-holdfast/release_reports.go",
		old:  `refused == entries {`,
		new:  `refused > 0 {`, by: inPlugin,
	},
	{
		rule: "by hand: unhold patches pods/status where pod updates are refused (0306)",
		file: "internal/finalizer/finalizer.go",
		old:  `	statusErr := c.patch(ctx, pod, patch, "status")`,
		new:  `	statusErr := err`, by: inPluginSuite,
	},
	{
		rule: "by hand: only entries that stand are kept (0306)",
		file: "internal/ipam/keep.go",
		old:  `Record: record.Name, Standing: true}`,
		new:  `Record: record.Name}`, by: inKeep,
	},
	{
		rule: "by hand: an entry that has to stand is not made again (0306)",
		file: "internal/ipam/whereabouts/tombstone.go",
		old:  `		if i.Standing {`,
		new:  `		if i.Standing && p.missing {`, by: inWhereabouts,
	},
	{
		rule: "audit: a tombstone is not releasable while a pod shows its address (0306)",
		file: "internal/inspect/audit/audit.go",
		old: `		f = f.ofRecord(owner)
	}
	if why := x.mayBeAlive(e, owner, orphan); why != "" {`,
		new: `		f = f.ofRecord(owner)
	}
	if why := x.mayBeAlive(e, owner, orphan); why != "" && false {`, by: inAudit,
	},
	{
		rule: "uninstall: what came back after the proof is removed, and the proof made anew (0306)",
		file: "internal/uninstall/finish.go",
		old: `	if err != nil || !back {
		return back, err
	}
	if err := u.sweep(ctx)`,
		new: `	if err != nil || !back || back {
		return back, err
	}
	if err := u.sweep(ctx)`, by: inUninstallSuite,
	},
}
