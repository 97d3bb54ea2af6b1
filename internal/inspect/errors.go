// SPDX-License-Identifier: Apache-2.0

package inspect

import "fmt"

// ForbiddenError says which right is missing.
type ForbiddenError struct {
	// Verb, Resource ("pods", "ippools.whereabouts.cni.cncf.io") and Scope ("all namespaces", "namespace x", "the cluster") are what
	// was tried.
	Verb, Resource, Scope string
	// Err is the API server's answer.
	Err error
}

func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("this needs the right to %s %s in %s, which you do not have; ask an administrator for it, or act as somebody who has it (--as, --context). The API server said: %v",
		e.Verb, e.Resource, e.Scope, e.Err)
}

func (e *ForbiddenError) Unwrap() error { return e.Err }
