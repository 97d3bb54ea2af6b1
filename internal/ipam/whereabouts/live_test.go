// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	wb "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
)

func TestOnlyAnObjectThatIsNotFoundIsGone(t *testing.T) {
	pools := wb.Resource("ippools")
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
			if got := isGone(tc.err); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
