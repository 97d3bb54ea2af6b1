// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestGains(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after string
		// want is the beginning of the answer.
		want string
	}{
		"nothing at all":                       {"a: []", "a: []", ""},
		"the same":                             {"a: [10.0.0.1]", "a: [10.0.0.1]", ""},
		"one more":                             {"a: [10.0.0.1]", "a: [10.0.0.1, 10.0.0.2]", "address 10.0.0.2/32"},
		"one less":                             {"a: [10.0.0.1, 10.0.0.2]", "a: [10.0.0.2]", ""},
		"part of a prefix":                     {"a: [10.0.0.0/24]", "a: [10.0.0.128/25, 10.0.0.3]", ""},
		"a wider prefix":                       {"a: [10.0.0.0/25]", "a: [10.0.0.0/24]", "address 10.0.0.0/24"},
		"the other family":                     {"a: [0.0.0.0/0]", `a: ["::1"]`, "address ::1/128"},
		"all of IPv6":                          {`a: ["::/0"]`, `a: ["fd00::1"]`, ""},
		"unreadable after":                     {"a: [10.0.0.1]", "a: [x]", "addresses that cannot be read"},
		"unreadable before, none after":        {"a: [x]", "a: []", ""},
		"unreadable before, one after":         {"a: [x]", "a: [10.0.0.1]", "address 10.0.0.1/32"},
		"readable beside unreadable before":    {"a: [x, 10.0.0.1]", "a: [10.0.0.1]", ""},
		"no object before":                     {"", "a: [10.0.0.1]", "address 10.0.0.1/32"},
		"no object before, and no address now": {"", "a: []", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := compile(t, holding("self.a"))
			after := object(t, tc.after)
			got := c.Gains(nil, after)
			if tc.before != "" {
				got = c.Gains(object(t, tc.before), after)
			}
			if !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if got := compile(t).Gains(object(t, "a: []"), object(t, "a: [10.0.0.1]")); got != "" {
		t.Errorf("a policy without addresses found %q", got)
	}
}

// TestGainsIsLinearInTheAddresses does not end in any time that a test has if each address is compared with each.
func TestGainsIsLinearInTheAddresses(t *testing.T) {
	var all []string
	for i := range 40_000 {
		all = append(all, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	o := object(t, "a: ["+strings.Join(all, ", ")+"]")
	if got := compile(t, holding("self.a")).Gains(o, o); got != "" {
		t.Errorf("got %q", got)
	}
}
