// SPDX-License-Identifier: Apache-2.0

// Package checker is a small explicit-state model checker. It explores every state that a system can reach, breadth first, so
// that the first path it finds to a bad state is a shortest one.
//
// A state is a comparable value: Go's own equality and hash tell states apart, and nothing can be forgotten in either. Two
// properties are checked:
//
//   - safety: no state breaks an invariant;
//   - progress: from every state there is a way to a state in which everything may rest, by steps that are bound to come. A
//     state without any way on and a circle without a way out both break it.
//
// A trace is replayed from its beginning before it is given out: what the checker prints has happened in the model.
package checker
