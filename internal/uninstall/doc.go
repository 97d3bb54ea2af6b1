// SPDX-License-Identifier: Apache-2.0

// Package uninstall takes Holdfast out of a cluster and proves that no pod is left with its finalizer (invariant I9).
//
// The order is what makes the proof hold:
//
//  1. the manager is stopped, so that nobody protects, or puts a label back, behind the sweep; where a pod of it cannot be
//     stopped (its node is silent), its account loses its rights instead;
//  2. everything that protects new pods, and every webhook, goes;
//  3. all pods are read, whatever their labels, and our finalizer is taken off each that has it, until two reads of all pods,
//     an interval apart, found none. What protects is looked for again before each read: whoever applies it anew is noticed;
//  4. what the IPAM still holds for pods that are gone is listed: nothing is released, and nobody is left who would;
//  5. then the policies, the records with their definitions, the roles, the certificates, and the namespace go.
//
// Every step looks at what is there and says what it found, so that an uninstallation that was stopped anywhere is run again
// from the start. It needs neither a manager that is alive nor one that ever was.
package uninstall
