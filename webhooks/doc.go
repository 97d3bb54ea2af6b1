// SPDX-License-Identifier: Apache-2.0

// Package webhooks holds the admission adapters: each decodes a request, collects facts, asks a pure package and answers.
// They write nothing but events, limited in number, so that a call by anybody is harmless.
//
// A refusal is 403 or 422. What cannot be told is a failed call (Serve, CouldNotTell), so that the failurePolicy in
// config/webhook decides. The handler that stamps pods never refuses.
package webhooks
