// SPDX-License-Identifier: Apache-2.0

// Package seeing has no code: its tests keep what an operator sees, alerts, dashboard and runbook, in line with what the code
// says and measures. They start nothing and read only files.
package seeing
