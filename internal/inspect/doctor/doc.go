// SPDX-License-Identifier: Apache-2.0

// Package doctor judges, purely, whether an installation works: each check says OK, WARN or FAIL, what was found, and what to do. What
// could not be looked at is WARN and says which right is missing: unknown is never "fine".
package doctor
