// SPDX-License-Identifier: Apache-2.0

// Package handshake is the agent's side of the release handshake, as pure functions.
// Judge decides about one query, from a complete list of the container runtime that began after the agent saw the query, and from what
// the agent remembers:
//
//	the list failed                                           no response (RuntimeUnreachable, ListFailed)
//	two ready sandboxes of the pod UID, one UID under two
//	names, the sandbox under another UID than before          no response (UIDConflict)
//	listed as ready                                           DoNotRelease
//	listed as not ready, the runtime reports namespaces       ReadyForRelease once all containers have exited and the network
//	                                                          namespace is closed; else DoNotRelease
//	listed as not ready, any other runtime                    DoNotRelease: only absence counts
//	absent, but the runtime has a task of it                  DoNotRelease: the runtime failed to load the sandbox
//	absent, seen before                                       ReadyForRelease
//	absent, never seen                                        ReadyForRelease once absent from an unbroken sequence of lists for
//	                                                          longer than SandboxCreationMax, or at once if its creation is done;
//	                                                          until then DoNotRelease
//	any of these ReadyForRelease, but another sandbox of the
//	pod UID is not gone                                       DoNotRelease, naming it if it is the only one
//	the query is about every sandbox of the pod UID           ReadyForRelease once an unbroken sequence of lists, for longer than
//	                                                          SandboxCreationMax, showed none that is not gone; it begins with
//	                                                          the first query about the pod after the pod's termination
//
// Foreign says for which boot a query is, Response what the agent writes for it, and Final which response is the last one.
//
// To a query to all nodes only the node that has or had the sandbox responds, with a claim (DoNotRelease), or one that has another sandbox of the
// pod that disowned it. AllNodesFindings.Respond
// says up to which query that node has responded.
//
// Responder says for which Node an agent may respond: its token, the Node object and the machine have to agree.
package handshake
