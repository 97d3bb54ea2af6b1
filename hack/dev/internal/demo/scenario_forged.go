// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	simnodeapi "github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// multus is the account that every node has for Multus. Its role lets it update the status of every pod.
const multus = "system:serviceaccount:kube-system:multus"

// forgedReport is a termination that no kubelet reported.
func forgedReport() scenario {
	return scenario{
		name:  "forged-kubelet-report",
		title: "A pod is force-deleted while its node's kubelet is frozen, and another account reports its end in the kubelet's name",
		harm: "The kubelet of web-0's node hangs; its sandbox lives on. A user force-deletes web-0. The StatefulSet makes a new web-0 on another " +
			"node, and whereabouts gives it the address of the old one.",
		guard: "the object of the old web-0 is held. Its node's agent is stopped, and a client with the token that every node has for Multus writes, " +
			"as field manager kubelet, that web-0 has failed. A policy refuses that to everybody but the node itself, so nothing is released " +
			"until the machine is powered off and declared dead.",
		play: playForgedReport,
	}
}

func playForgedReport(ctx context.Context, s *stage) error {
	old, err := s.startWeb(ctx)
	if err != nil {
		return err
	}
	if !s.guard {
		return s.forceDeleteAndFence(ctx, old)
	}
	if s.agents() {
		if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventStopAgent, s.first); err != nil {
			return err
		}
		s.note("the agent on %s is stopped", s.first)
	}
	if err := s.freezeAndForceDelete(ctx, old); err != nil {
		return err
	}
	if err := s.awaitHeld(ctx, old.UID); err != nil {
		return err
	}
	if err := s.forge(ctx); !isRefusedByPolicy(err, "holdfast-kubelet-reports") {
		return fmt.Errorf("the API server responded %w to a forged report: expected the policy holdfast-kubelet-reports to refuse it", err)
	}
	s.note("Multus' account writes in the kubelet's name that web-0 has failed: a policy refuses it")
	if err := s.remains(ctx, "the hold on the object of web-0", overlapPeriod, s.isHeld(old.UID)); err != nil {
		return err
	}
	if err := s.powerOffAndFence(ctx); err != nil {
		return err
	}
	_, _, err = s.awaitAddress(ctx, "web-0", old.UID)
	return err
}

// forge writes the status of web-0 as its kubelet would after it had stopped the sandbox.
func (s *stage) forge(ctx context.Context) error {
	config := s.cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: multus,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}}
	forger, err := client.New(config, client.Options{Scheme: s.client.Scheme()})
	if err != nil {
		return fmt.Errorf("client of Multus' account: %w", err)
	}
	pod, err := s.getPod(ctx, "web-0")
	if err != nil || pod == nil {
		return fmt.Errorf("there is no web-0 whose end could be reported (error %w)", err)
	}
	pod.Status.Phase = corev1.PodFailed
	return forger.Status().Update(ctx, pod, client.FieldOwner("kubelet"))
}
