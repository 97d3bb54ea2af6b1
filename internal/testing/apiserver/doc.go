// SPDX-License-Identifier: Apache-2.0

// Package apiserver is a Kubernetes API server in memory, for simulations: clients reach it through an http.RoundTripper, with no
// socket, no goroutine of its own and no clock but the process's, so that it runs in a testing/synctest bubble.
//
// It serves the kinds that it is given: native ones by their Go types, custom ones by their CustomResourceDefinitions, with the
// structural schemas, field managers, patches and CEL of Kubernetes' own packages. The webhook configurations and
// ValidatingAdmissionPolicies that it stores are in force at once.
//
// test/integration/conformance plays every behavior that the product relies on against this server and a real one. What it leaves out:
// authorization (policies find that administrators may do everything, and others nothing), quotas, garbage collection of owned objects, conversion between versions, validation of native kinds beyond
// metadata, and mutating admission policies.
package apiserver
