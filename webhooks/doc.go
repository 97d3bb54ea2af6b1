// SPDX-License-Identifier: Apache-2.0

// Package webhooks holds the admission adapters: each decodes a request, collects facts, calls a pure package and responds.
// They write nothing but events, limited in number. Any client can reach the port: what a review costs is bounded before it is
// decoded (Serve), and what it causes beyond a response needs proof that the API server sent it (authentic.go).
//
// A refusal is 403 or 422. An undecided review is a failed call (Serve, CouldNotTell), so that the failurePolicy in
// config/webhook decides. The handler that protects pods never refuses.
package webhooks
