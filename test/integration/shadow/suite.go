// SPDX-License-Identifier: Apache-2.0

// Package shadow runs the manager in mode Shadow on a real control plane, with its webhooks registered as they are
// installed, in a cluster where mode Guard would protect, refuse, repair and delete; and then, on the very same facts, in Guard.
// Every write that the manager makes is looked at as it leaves the process, and so is every one of the agents, which run as they are
// and do not know of modes.
package shadow

import (
	"context"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/cmd/manager/app"
	"github.com/holdfast-dev/holdfast/internal/testing/admission"
	"github.com/holdfast-dev/holdfast/test/fixture"
)

const (
	// quiet is for how long nothing may happen, after everything was reported.
	quiet = 2 * time.Second
	// sandboxCreationMax is that of the manager and of the agents.
	sandboxCreationMax = time.Second

	managerNamespace             = "holdfast-system"
	agentNamespace, agentAccount = "holdfast-agent", "holdfast-agent"
	// poolNamespace is where whereabouts has its objects.
	poolNamespace = "kube-system"
)

var (
	plane = fixture.Plane
	// admin is uncached and allowed everything, and the manager does not trust it; it keeps the warnings that it gets.
	admin  client.Client
	warned fixture.Warnings
	// deleter has the manager's identity, which alone may take records away.
	deleter client.Client
)

var suite = fixture.NewSuite("shadow", fixture.PlaneOne, func(ctx context.Context) {
	identity := plane.Config()
	identity.WarningHandlerWithContext = &warned
	admin = fixture.Client(identity)
	// What is not done is left undone by choice, not for want of a right.
	all := fixture.Installation().Objects(notHere...)
	for _, object := range all { // the administrator writes what the nodes of this suite report
		Expect(admission.TrustKubelets(object, "admin")).To(Succeed())
	}
	fixture.Apply(ctx, all)
	grantHostSubnets(ctx)
	deleter = fixture.Account(ctx, managerNamespace, app.Name, nil)
})

// notHere are the kinds of an installation that this suite runs itself, or that would call what does not run here.
var notHere = []string{"CustomResourceDefinition", "ServiceMonitor", "Deployment", "DaemonSet", "PodDisruptionBudget", "Service", "Certificate", "Issuer",
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
