// SPDX-License-Identifier: Apache-2.0

package served

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsAbsent reports whether the API server knows the resource and has no such object. A 404 for the resource itself (its CRD was removed, or its version
// is not served at this moment) has the same status and another cause: it is unknown, not gone.
func IsAbsent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
