// SPDX-License-Identifier: Apache-2.0

// Package handshake is the agent's side of the release handshake, purely: from a query, a complete list of the container
// runtime that began after the query was seen, and what the agent remembers, to a word. Judge is the whole of it:
//
//	the list failed                                           silence (RuntimeUnreachable, ListFailed)
//	two ready sandboxes of the pod UID, one UID under two
//	names, the sandbox under another UID than before          silence (UIDConflict)
//	listed as ready                                           DoNotRelease
//	listed as not ready, the runtime tells of namespaces      ReadyForRelease once no container is left that has not exited
//	                                                          and the network namespace is closed; else DoNotRelease
//	listed as not ready, any other runtime                    DoNotRelease: only absence counts
//	absent, but the runtime has a task of it                  DoNotRelease: it failed to load the sandbox
//	absent, seen before                                       ReadyForRelease
//	absent, never seen                                        ReadyForRelease once absent from an unbroken row of lists for
//	                                                          longer than SandboxCreationMax; until then DoNotRelease
//	any of these ReadyForRelease, but another sandbox of the
//	pod UID is not gone                                       DoNotRelease, naming it
//	asked for every sandbox of the pod UID                    ReadyForRelease once an unbroken row of lists, for longer than
//	                                                          SandboxCreationMax, showed none that is not gone; the row begins
//	                                                          with the first query about the pod once it has ended
//
// Foreign says for whom a query is, Response what is written for it, and Final which response is the last one.
//
// A query to all nodes gets a claim (DoNotRelease) from the node that has or had the sandbox, and no response from any
// other. Respond says up to which query that counts.
//
// Whose agent may speak at all is Responder's query: the token, the Node object and the machine have to be one.
package handshake
