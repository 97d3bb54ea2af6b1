// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

func TestUnprotectedPodsAreCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		pods   []string
		change func(*Facts)
		level  Level
		want   []string
	}{
		"there is none":                             {nil, nil, "", nil},
		"the manager is Ready":                      {[]string{"ns/a"}, nil, Warn, []string{"1 pods hold an address", "ns/a", "nothing: the manager adds"}},
		"there are more than a line names":          {[]string{"ns/a", "ns/b", "ns/c", "ns/d"}, nil, Warn, []string{"4 pods", "ns/c and 1 more"}},
		"no replica is Ready":                       {[]string{"ns/a"}, func(f *Facts) { f.Pods = []corev1.Pod{managerPod("n", corev1.ConditionFalse)} }, Fail, []string{"bring the manager back"}},
		"the manager is a shadow, and adds nothing": {[]string{"ns/a"}, func(f *Facts) { f.Configuration.Get().Mode = configv1alpha1.ModeShadow }, Warn, []string{"as long as the mode is Shadow"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := wellInstalled(t)
			f.Unprotected = tc.pods
			if tc.change != nil {
				tc.change(f)
			}
			d := &Diagnosis{}
			unprotected(d, f, now)
			if len(tc.want) == 0 {
				if len(d.Checks) > 0 {
					t.Errorf("got %+v, expected no line", d.Checks)
				}
				return
			}
			if len(d.Checks) != 1 || d.Checks[0].Level != tc.level {
				t.Fatalf("got %+v, expected one line of level %s", d.Checks, tc.level)
			}
			for _, want := range tc.want {
				if text := d.Checks[0].Found + " " + d.Checks[0].Do; !strings.Contains(text, want) {
					t.Errorf("%q lacks %q", text, want)
				}
			}
		})
	}
}
