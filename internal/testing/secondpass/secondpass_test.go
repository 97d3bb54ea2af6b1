// SPDX-License-Identifier: Apache-2.0

package secondpass

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/testing/faults"
)

// inPass sets the rate for one test.
func inPass(t *testing.T, wanted float64) {
	t.Helper()
	before := rate
	rate = wanted
	t.Cleanup(func() { rate = before })
}

func TestTheFirstPassIsLeftAsItIs(t *testing.T) {
	inPass(t, 0)
	config := &rest.Config{}
	Wrap(config)
	if config.WrapTransport != nil {
		t.Error("calls of the first pass go through a wrapper")
	}
	if Patience(time.Minute) != time.Minute || LastRetry() != 0 {
		t.Errorf("the first pass waits for %s and tries again after %s", Patience(time.Minute), LastRetry())
	}
	tries := 0
	if _, err := Start(func() (int, error) { tries++; return 0, errors.New("no") }); err == nil || tries != 1 {
		t.Errorf("%d tries in the first pass, error %v", tries, err)
	}
}

func TestTheSecondPassIsPatient(t *testing.T) {
	inPass(t, 0.25)
	config := &rest.Config{}
	Wrap(config)
	if config.WrapTransport == nil {
		t.Error("no call of the second pass can fail")
	}
	if Patience(time.Minute) <= time.Minute || LastRetry() == 0 {
		t.Errorf("the second pass waits for %s and tries again after %s", Patience(time.Minute), LastRetry())
	}
	tries := 0
	started, err := Start(func() (int, error) {
		if tries++; tries < 3 {
			return 0, errors.New("not yet")
		}
		return tries, nil
	})
	if err != nil || started != 3 {
		t.Errorf("started with %d after %d tries, error %v", started, tries, err)
	}
}

func TestExceptions(t *testing.T) {
	pods, leases := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	cases := map[string]struct {
		exception func(faults.Call) bool
		call      faults.Call
		want      bool
	}{
		"a live read of one object":                {LiveReads, faults.Call{Verb: "get", Resource: pods, Name: "a"}, true},
		"discovery is no read of an object":        {LiveReads, faults.Call{Verb: "get", Path: "/apis"}, false},
		"a list fills a cache":                     {LiveReads, faults.Call{Verb: "list", Resource: pods}, false},
		"a list, where a webhook lists":            {LiveLists, faults.Call{Verb: "list", Resource: pods}, true},
		"a watch is a cache's":                     {LiveLists, faults.Call{Verb: "watch", Resource: pods}, false},
		"the manager's own Lease":                  {Leases("system"), faults.Call{Verb: "update", Resource: leases, Namespace: "system", Name: "m"}, true},
		"a node's Lease is not the manager's":      {Leases("system"), faults.Call{Verb: "get", Resource: leases, Namespace: "kube-node-lease", Name: "n"}, false},
		"a write of the manager's other resources": {Leases("system"), faults.Call{Verb: "update", Resource: pods, Namespace: "system", Name: "m"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.exception(tc.call); got != tc.want {
				t.Errorf("let through: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestWhatAPassLeavesOut(t *testing.T) {
	ordinary, exempt, crash := []string(nil), []string{exemptPrefix + "it looks once"}, []string{crashes}
	cases := map[string]struct {
		rate    float64
		crashes bool
		out     map[string]bool
	}{
		"the first pass":       {0, false, map[string]bool{"ordinary": false, "exempt": false, "crash": true}},
		"with failing calls":   {0.25, false, map[string]bool{"ordinary": false, "exempt": true, "crash": true}},
		"that of crash points": {0, true, map[string]bool{"ordinary": true, "exempt": true, "crash": false}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inPass(t, c.rate)
			before := atCrashPoints
			atCrashPoints = c.crashes
			t.Cleanup(func() { atCrashPoints = before })
			for kind, labels := range map[string][]string{"ordinary": ordinary, "exempt": exempt, "crash": crash} {
				if _, out := leftOut(labels); out != c.out[kind] {
					t.Errorf("a spec of the kind %q is left out: %t; expected %t", kind, out, c.out[kind])
				}
			}
		})
	}
}
