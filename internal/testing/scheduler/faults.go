// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/internal/testing/apiserver"
)

var errRefused = errors.New("simulated: connection refused")

// outcome is what a fault does to a call.
func outcome(f Fault, c apiserver.Call) apiserver.Outcome {
	switch f {
	case Refused:
		return apiserver.Outcome{Err: errRefused}
	case Lost:
		return apiserver.Outcome{Lost: true}
	case Conflict:
		return apiserver.Outcome{Err: apierrors.NewConflict(schema.GroupResource{Resource: c.Resource}, c.Name, errors.New("simulated"))}
	case Throttled:
		return apiserver.Outcome{Err: apierrors.NewTooManyRequests("simulated", 1)}
	case Failed:
		return apiserver.Outcome{Err: apierrors.NewInternalError(errors.New("simulated"))}
	default:
		return apiserver.Outcome{}
	}
}
