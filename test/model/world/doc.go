// SPDX-License-Identifier: Apache-2.0

// Package world is the model of the release handshake: the actors around the product's pure decisions, and everything that may happen
// between two of their steps. docs/model.md says what the model has and what it rests on.
package world
