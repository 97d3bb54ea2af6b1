// SPDX-License-Identifier: Apache-2.0

// Package sim plays histories of the whole product in virtual time: the real manager and the real agents, whereabouts' real allocator and
// reconciler, and simulated kubelets, on the API server in memory (docs/decisions/0125, 0146).
//
// A seed decides everything: the pods, the faults and the order of all steps. Play runs in a testing/synctest bubble. Checkers that know the machines,
// and share no code with the product, judge each history.
package sim
