// SPDX-License-Identifier: Apache-2.0

// Package supervisor keeps a development cluster up in the background, for as
// long as people want it: a detached process that owns all others, a file that
// says what was started, and the way to stop exactly that, also when the
// supervisor itself was killed.
package supervisor
