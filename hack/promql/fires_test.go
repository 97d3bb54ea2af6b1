// SPDX-License-Identifier: Apache-2.0

package promql

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// cases have, for each alert, series for which its expression gives something and series for which it does not, in the notation
// of Prometheus' own tests. Where only the leader reports, the other replica's zero stands beside it.
var cases = map[string]struct{ fires, quiet string }{
	"HoldfastManagerDown":  {`up{job="holdfast-metrics"} 0+0x130`, `up{job="holdfast-metrics",pod="a"} 0+0x130` + also + `up{job="holdfast-metrics",pod="b"} 1+0x130`},
	"HoldfastNoLeader":     {`leader_election_master_status{name="holdfast-manager"} 0+0x130`, leads},
	"HoldfastUnclassified": {`holdfast_unclassified_total 0+1x130`, `holdfast_unclassified_total 5+0x130` + also + `holdfast_held_pods{reason="NodeUnreachable"} 1+0x130`},
	"HoldfastIPAMNotSynced": {`holdfast_ipam_synced{backend="whereabouts",pod="a"} 0+0x130`,
		`holdfast_ipam_synced{backend="whereabouts",pod="a"} 0+0x130` + also + `holdfast_ipam_synced{backend="whereabouts",pod="b"} 1+0x130`},
	"HoldfastCertificateNearEnd": {`certmanager_certificate_expiration_timestamp_seconds{name="holdfast-webhook"} 1728000+0x130`,
		`certmanager_certificate_expiration_timestamp_seconds{name="holdfast-webhook"} 5184000+0x130` + also +
			`certmanager_certificate_expiration_timestamp_seconds{name="another"} 1+0x130`},
	"HoldfastServedCertificateNearEnd": {`holdfast_webhook_certificate_expiration_timestamp_seconds{instance="a"} 1728000+0x130`,
		`holdfast_webhook_certificate_expiration_timestamp_seconds{instance="a"} 2592000+0x130`},
	"HoldfastShadowBlocked": {`holdfast_shadow_blocked_total{verb="patch",resource="pods"} 1+0x130`, `holdfast_shadow_total{action="Release"} 1+0x130`},
	"HoldfastInShadow": {`holdfast_mode{mode="Shadow",pod="a"} 1+0x130` + also + `holdfast_mode{mode="Guard",pod="a"} 0+0x130` + also + `holdfast_mode{mode="Shadow",pod="b"} 0+0x130`,
		`holdfast_mode{mode="Shadow",pod="a"} 0+0x130` + also + `holdfast_mode{mode="Guard",pod="a"} 1+0x130`},
	"HoldfastHeldTooLong": {`holdfast_oldest_hold_seconds{reason="KubeletNotFinished"} 0+60x130`,
		`holdfast_oldest_hold_seconds{reason="KubeletNotFinished"} 60+0x130` + also + `holdfast_oldest_hold_seconds{reason="NodeUnreachable"} 0+60x130`},
	"HoldfastHeldByUnreachableNode": {`holdfast_oldest_hold_seconds{reason="NodeUnreachable"} 0+60x130`, `holdfast_oldest_hold_seconds{reason="KubeletNotFinished"} 0+60x130`},
	"HoldfastPoolNearlyFull":        {`holdfast_ipam_pool_fullest_ratio{range="10.0.0.0/24"} 0.95+0x130`, `holdfast_ipam_pool_fullest_ratio{range="10.0.0.0/24"} 0.9+0x130`},
	"HoldfastReconcilerRefused": {`holdfast_unsafe_releases_total{decision="refused",pod="a"} _x60 1+0x70`,
		`holdfast_unsafe_releases_total{decision="warned"} 0+1x130` + also + `holdfast_unsafe_releases_total{decision="allowed"} 0+1x130`},
	"HoldfastConflict":          {`holdfast_conflicts{pod="a"} 2+0x130` + also + `holdfast_conflicts{pod="b"} 0+0x130`, `holdfast_conflicts 0+0x130`},
	"HoldfastReleaseFailing":    {`holdfast_release_failures_total{backend="whereabouts"} 0+1x130`, `holdfast_release_failures_total{backend="whereabouts"} 9+0x130`},
	"HoldfastUnprotectFailing":  {`holdfast_held_pods{reason="UnprotectFailed"} 1+0x130`, `holdfast_held_pods{reason="UnprotectFailed"} 0+0x130` + also + `holdfast_held_pods{reason="NodeUnreachable"} 1+0x130`},
	"HoldfastOrphansStanding":   {`holdfast_orphans 3+0x130`, `holdfast_orphans 0+0x130`},
	"HoldfastIPAMInconsistent":  {`holdfast_ipam_inconsistencies{kind="SliceMoved"} 1+0x130`, `holdfast_ipam_inconsistencies{kind="SliceMoved"} 0+0x130`},
	"HoldfastRepairFailing":     {`holdfast_ipam_repairs_total{result="Failed"} 0+1x130`, `holdfast_ipam_repairs_total{result="Repaired"} 0+1x130`},
	"HoldfastMalformedEntries":  {`holdfast_malformed_ipam_entries 1+0x130`, `holdfast_malformed_ipam_entries 0+0x130`},
	"HoldfastNodesWithoutSlice": {`holdfast_nodes_without_slice 1+0x130`, `holdfast_nodes_without_slice 0+0x130`},
	"HoldfastWebhookFailingOpen": {`apiserver_admission_webhook_fail_open_count{name="protect.holdfast.dev"} 0+1x130`,
		`apiserver_admission_webhook_fail_open_count{name="webhook.cert-manager.io"} 0+1x130`},
	"HoldfastWebhookFailingCalls": {`apiserver_admission_webhook_rejection_count{name="p.node-resource.holdfast.dev",error_type="calling_webhook_error"} 0+1x130`,
		`apiserver_admission_webhook_rejection_count{name="ippool.release.holdfast.dev",error_type="no_error"} 0+1x130`},
	"HoldfastUnsafeReleasesRefused": {`holdfast_unsafe_releases_total{decision="warned"} 0+1x130`, `holdfast_unsafe_releases_total{decision="allowed"} 0+9x130`},
	"HoldfastLateProtection":        {`holdfast_late_protections_total 0+1x130`, `holdfast_late_protections_total 7+0x130`},
	"HoldfastAgentNotResponding":    {`holdfast_held_pods{reason="AgentNotResponding"} 1+0x130`, `holdfast_held_pods{reason="AgentNotResponding"} 0+0x130`},
	"HoldfastAgentCannotRespond":    {`holdfast_agent_queries_without_response{instance="a",reason="ListFailed"} 1+0x130`, `holdfast_agent_queries_without_response{instance="a",reason="ListFailed"} 0+0x130`},
	"HoldfastAgentDown": {`kube_daemonset_status_number_unavailable{daemonset="holdfast-agent"} 1+0x130`,
		`kube_daemonset_status_number_unavailable{daemonset="whereabouts"} 1+0x130`},
	"HoldfastNodeStoreLeaks":        {`holdfast_node_store_findings{kind="AddressLeaked"} 1+0x130`, `holdfast_node_store_findings{kind="AddressOfStoppedSandbox"} 1+0x130`},
	"HoldfastNodeAddressConflict":   {`holdfast_node_address_conflicts{policy="p"} 1+0x130`, `holdfast_node_address_conflicts{policy="p"} 0+0x130`},
	"HoldfastStaleNodeObjects":      {`holdfast_node_objects{state="stale"} 1+0x130`, `holdfast_node_objects{state="owned"} 1+0x130`},
	"HoldfastNodePolicyNotAccepted": {`holdfast_node_resource_policies{accepted="false"} 1+0x130`, `holdfast_node_resource_policies{accepted="true"} 1+0x130`},
	"HoldfastNodeWritesUndecided":   {`holdfast_node_resource_writes_total{decision="undecided"} 0+1x130`, `holdfast_node_resource_writes_total{decision="refused"} 0+1x130`},
	"HoldfastNodeSweepFailing":      {`holdfast_node_sweeps_total{result="SweepFailed"} 0+1x130`, `holdfast_node_sweeps_total{result="SweepCompleted"} 0+1x130`},
}

const (
	also  = "\n  "
	leads = `leader_election_master_status{name="holdfast-manager",pod="a"} 0+0x130` + also + `leader_election_master_status{name="holdfast-manager",pod="b"} 1+0x130`
)

func TestEveryAlertFiresWhenItShould(t *testing.T) {
	expressions := alerts(t)
	for alert := range cases {
		if _, there := expressions[alert]; !there {
			t.Errorf("there are series for alert %s, which is no more", alert)
		}
	}
	for alert, expr := range expressions {
		series, there := cases[alert]
		if !there {
			t.Errorf("alert %s has no series for which it fires and none for which it does not", alert)
			continue
		}
		t.Run(alert, func(t *testing.T) {
			if got := evaluate(t, expr, series.fires); len(got) == 0 {
				t.Errorf("expected %s to give something for %s", expr, series.fires)
			}
			if got := evaluate(t, expr, series.quiet); len(got) != 0 {
				t.Errorf("expected %s to give nothing for %s; got %v", expr, series.quiet, got)
			}
		})
	}
}

// evaluate is the expression's value two hours after the beginning of the series, of which a sample comes every minute.
func evaluate(t *testing.T, expr, series string) promql.Vector {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n  "+series+"\n")
	defer func() {
		if err := storage.Close(); err != nil {
			t.Error(err)
		}
	}()
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	query, err := engine.NewInstantQuery(t.Context(), storage, nil, expr, time.Unix(0, 0).Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	vector, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	return append(promql.Vector(nil), vector...)
}
