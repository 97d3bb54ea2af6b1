// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/finalizer"
	"github.com/holdfast-dev/holdfast/internal/inspect/auditlog"
	"github.com/holdfast-dev/holdfast/internal/inspect/collect"
)

const unholdDescription = `Unhold removes the finalizer holdfast.dev/ip-allocation from ONE pod that is being deleted, so that
the pod object is deleted although Holdfast does not know that its sandboxes are gone. It is the
one way past the admission policy holdfast-finalizer, and works while no manager runs.

It releases no address: the record stays, and Holdfast holds the addresses until it has the
evidence. To see what Holdfast waits for: kubectl holdfast explain.

It writes an event about the pod first (reason ProtectionRemovedByUser, with your name and your
reason). Then each entry of the pod gets the tombstone of its record, so that no pod of the same
name gets the address. Nothing else is done, unless with --force, if that fails, and while the
kubelet may be making a sandbox of the pod, which may get an address later. Then, in one patch of
the pod of that UID, it removes the finalizer and writes the annotation holdfast.dev/unhold:
"Kept: REASON", or "GivenUp: REASON" if the addresses could not be kept. Other finalizers stay. Where
another webhook makes every patch of the pod fail, it patches pods/status.

The component refuse-foreign-removals refuses your tombstones. A user who may impersonate the
manager's account can have them written by that account (--as-manager).

Needed rights: get and patch pods; patch pods/status where a webhook is in the way; create events
(events.k8s.io); get ipallocations; list and patch ippools; get, list and patch
overlappingrangeipreservations; the verb unhold on ipallocations.holdfast.dev, which cluster-admin
has and the role edit has not.`

type unholdOptions struct {
	*options
	reason           string
	force, asManager bool
}

func (o *options) newUnholdCommand() *cobra.Command {
	u := &unholdOptions{options: o}
	cmd := &cobra.Command{
		Use:   "unhold pod/NAME --reason TEXT",
		Short: "Unprotect a pod that is being deleted, against the policy that protects it",
		Long:  unholdDescription,
		Example: `  # What is it waiting for?
  kubectl holdfast explain pod/web-1 -n apps

  # The machine is scrap, and the pod object is in the way
  kubectl holdfast unhold pod/web-1 -n apps --reason "INC-1432: node-b burnt down, seen by ops"`,
		Args:              u.args,
		ValidArgsFunction: o.completePods,
		RunE:              func(cmd *cobra.Command, args []string) error { return u.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&u.reason, "reason", "", "why, in a `sentence` that others will read")
	cmd.Flags().BoolVar(&u.force, "force", false, "go on where its addresses could not be kept from a pod of the same name")
	cmd.Flags().BoolVar(&u.asManager, "as-manager", false, "write the tombstones as the manager's account, where a policy refuses all others; needs the right to impersonate it")
	return cmd
}

func (u *unholdOptions) args(_ *cobra.Command, args []string) error {
	if len(args) != 1 || !strings.HasPrefix(args[0], "pod/") || args[0] == "pod/" {
		return fmt.Errorf("the arguments are %q: expected pod/NAME", args)
	}
	u.reason = strings.TrimSpace(u.reason)
	return checkReason(u.reason)
}

func (u *unholdOptions) run(ctx context.Context, arg string) error {
	c, err := u.open()
	if err != nil {
		return err
	}
	namespace, err := u.namespace()
	if err != nil {
		return err
	}
	pod := &corev1.Pod{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: strings.TrimPrefix(arg, "pod/")}, pod); err != nil {
		return fmt.Errorf("reading the pod: %w", err)
	}
	what := fmt.Sprintf("pod %s/%s (UID %s)", pod.Namespace, pod.Name, pod.UID)
	switch {
	case !controllerutil.ContainsFinalizer(pod, v1alpha1.Finalizer):
		fmt.Fprintf(u.Out, "Nothing to do: Holdfast does not hold %s.\n", what)
		return nil
	case pod.DeletionTimestamp == nil:
		return refuse("%s is not being deleted: Holdfast would protect it again. Delete it first. Nothing was changed", what)
	}
	return u.unhold(ctx, c, pod, what)
}

// unhold writes the audit log first: without it, nothing is done.
func (u *unholdOptions) unhold(ctx context.Context, c *collect.Cluster, pod *corev1.Pod, what string) error {
	if err := u.auditLog(c).Unhold(ctx, pod, u.reason); err != nil {
		return fmt.Errorf("%w; without it nothing is done, and nothing was", err)
	}
	statement := v1alpha1.UnholdKept
	if err := u.keepAddresses(ctx, c, pod); err != nil && !u.force {
		return refuse("the addresses of %s could not be kept from a pod of the same name: %v. The finalizer stays; --force removes it all the same", what, err)
	} else if err != nil {
		statement = v1alpha1.UnholdGivenUp
		fmt.Fprintf(u.ErrOut, "warning: a pod of the same name may get the addresses of %s: %v\n", what, err)
	}
	remover := finalizer.Client{Writer: c.Client, Reader: c.Client, FieldManager: auditlog.Reporter}
	way, err := remover.Unhold(ctx, finalizer.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, statement.Because(u.reason))
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; the finalizer stays, and so do the tombstones. It needs patch on pods, and the verb unhold on ipallocations.holdfast.dev", err)
	case err != nil:
		return fmt.Errorf("%w; the finalizer stays, and so do the tombstones. Run it again", err)
	case way == finalizer.WayGone:
		fmt.Fprintf(u.Out, "Nothing to do: %s is deleted, or Holdfast does not hold it any more.\n", what)
		return nil
	}
	fmt.Fprintf(u.Out, "Removed the finalizer %s from %s. Its record stays until its addresses are released: kubectl holdfast explain %s\n", v1alpha1.Finalizer, what, pod.UID)
	return nil
}

// keepAddresses keeps the pod's addresses from other pods of the name.
func (u *unholdOptions) keepAddresses(ctx context.Context, c *collect.Cluster, pod *corev1.Pod) error {
	pools, served, err := c.Pools(ctx)
	if err != nil || !served {
		return err
	}
	if u.asManager {
		if pools, err = c.AsManager(ctx); err != nil {
			return err
		}
	}
	kept, err := finalizer.Keep(ctx, c.Client, pools, pod)
	for _, request := range kept {
		fmt.Fprintf(u.Out, "%s of pool %s is kept for record %s.\n", request.IP, request.Pool, request.Record)
	}
	return err
}
