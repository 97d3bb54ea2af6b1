// SPDX-License-Identifier: Apache-2.0

// Package nodepolicy turns a NodeResourcePolicy into what works: a checked and compiled form that reads objects, and the
// policy's entry in the generated ValidatingWebhookConfiguration, with the match conditions that keep away every write which
// need not be judged. It is pure.
//
// A policy is compiled with the CEL environment of the API server, so that what compiles here is taken there.
package nodepolicy
