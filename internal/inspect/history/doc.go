// SPDX-License-Identifier: Apache-2.0

// Package history tells, purely, what is known of an address in the order of time: from the records that hold it, the pods that show
// it, and the events of ours that name it. What is told is what somebody wrote down; the API server forgets events after an hour,
// unless it is configured otherwise, and a record goes with its last address.
package history
