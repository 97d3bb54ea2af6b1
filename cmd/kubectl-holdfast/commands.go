// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

// commands are those that ask a cluster.
func (o *options) commands() []*cobra.Command {
	return []*cobra.Command{o.newExplainCommand(), o.newListCommand(), o.newWhoCommand(), o.newHistoryCommand(), o.newAuditCommand(), o.newReleaseCommand(), o.newUnholdCommand(), o.newDoctorCommand(), o.newUninstallCommand()}
}
