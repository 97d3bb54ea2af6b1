// SPDX-License-Identifier: Apache-2.0

// Package collect reads from a cluster the facts that the rooms of internal/inspect judge. Every read goes to the API server, long
// lists in pages, and says how far it is. What may not be read is an error that names the missing right.
package collect
