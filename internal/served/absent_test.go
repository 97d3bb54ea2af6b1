// SPDX-License-Identifier: Apache-2.0

package served_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/internal/served"
)

func TestOnlyAnObjectThatIsNotFoundIsAbsent(t *testing.T) {
	pools := schema.GroupResource{Group: "whereabouts.cni.cncf.io", Resource: "ippools"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                       {nil, false},
		"the object":                     {apierrors.NewNotFound(pools, "p"), true},
		"the resource: a page not found": {apierrors.NewGenericServerResponse(404, "get", pools, "p", "404 page not found", 0, true), false},
		"forbidden":                      {apierrors.NewForbidden(pools, "p", nil), false},
		"a proxy in between":             {errors.New("404"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := served.IsAbsent(tc.err); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
