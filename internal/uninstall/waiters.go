// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/pages"
)

// waitCommand is the subcommand that agents run as an init container (cmd/manager).
const waitCommand = "wait-node-resource"

// A WaitersError names DaemonSets whose pods could not start any more.
type WaitersError struct {
	// DaemonSets are "namespace/name".
	DaemonSets []string
}

func (e *WaitersError) Error() string {
	return fmt.Sprintf("nothing was changed: the pods of the DaemonSets %s run `manager %s` before they start, and would wait in vain for a "+
		"NodeResourcePolicy that is gone. Take that init container out of them first, or keep the policies with --keep-crds",
		strings.Join(e.DaemonSets, ", "), waitCommand)
}

// check refuses where nodes' agents depend on our definitions, where the manager is in another namespace, and where the list of held entries could not be written.
func (u *uninstallation) check(ctx context.Context) error {
	if err := u.checkHeldFile(); err != nil {
		return err
	}
	if err := u.checkNamespace(ctx); err != nil {
		return err
	}
	var waiting []string
	for list, err := range pages.Of[appsv1.DaemonSetList](ctx, u.Client) {
		if err != nil {
			return fmt.Errorf("listing every DaemonSet: %w", err)
		}
		for i := range list.Items {
			if d := &list.Items[i]; slices.ContainsFunc(d.Spec.Template.Spec.InitContainers, waitsForPolicy) {
				waiting = append(waiting, d.Namespace+"/"+d.Name)
			}
		}
	}
	switch {
	case len(waiting) == 0:
		u.say("no DaemonSet waits for a NodeResourcePolicy")
	case u.KeepCRDs, u.LeaveObjects:
		u.say("DaemonSets that wait for a NodeResourcePolicy, which is kept: %s", strings.Join(waiting, ", "))
	default:
		return &WaitersError{DaemonSets: waiting}
	}
	return nil
}

// waitsForPolicy says whether an init container waits for what a NodeResourcePolicy says; with --resource it needs none.
func waitsForPolicy(c corev1.Container) bool {
	arguments := append(slices.Clone(c.Command), c.Args...)
	return slices.Contains(arguments, waitCommand) &&
		slices.ContainsFunc(arguments, func(a string) bool { return a == "--policy" || strings.HasPrefix(a, "--policy=") })
}

func (u *uninstallation) checkHeldFile() error {
	if u.HeldFile == "" {
		return nil
	}
	info, err := os.Stat(u.HeldFile)
	if err == nil && info.Size() > 0 {
		return fmt.Errorf("%s has content, perhaps the list of an earlier run: name another file", u.HeldFile)
	}
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("looking at the file for the list: %w", err)
	}
	return nil
}
