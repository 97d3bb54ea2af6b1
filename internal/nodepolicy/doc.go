// SPDX-License-Identifier: Apache-2.0

// Package nodepolicy turns a NodeResourcePolicy into what works: a checked and compiled form that reads objects, and the
// policy's entry in the generated ValidatingWebhookConfiguration, with the match conditions that keep away every write which
// need not be judged. It is pure.
//
// A policy is compiled with the CEL environment of the API server, so that what compiles here is taken there. Its
// expressions know one variable, "self", the whole object; the API server's limit of cost ends one that takes too long.
//
// The match conditions keep these writes away from the webhook. All but those of the last row would be allowed whatever
// the Node is, and those of the last row if it is the Node that the writer's token names:
//
//	not-exempt                the policy exempts the writer
//	not-being-deleted         the object is being deleted, and the policy knows no addresses
//	not-deleted-by-this-write the object is being deleted, and loses its last finalizer
//	speaks-for-a-node         the object names no node
//	carries-a-node-uid        it carries no UID, carried none before, and need not; a missing Node is allowed
//	not-the-nodes-own-writer  the writer's token names the object's node and the UID that the object carries
//
// An object with more than 16 owner references goes to the webhook whatever they are.
package nodepolicy
