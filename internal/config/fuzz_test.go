// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

// checkParsed: reading a file ends with a valid configuration, which is a file that reads the same, or with a few mistakes.
func checkParsed[C any](t *testing.T, content []byte, parse func(string, []byte) (*C, error), validate func(*C) field.ErrorList) {
	t.Helper()
	c, err := parse("fuzz", content)
	if (c == nil) == (err == nil) {
		t.Fatalf("got a configuration %v and an error %v", c != nil, err)
	}
	if err != nil {
		if len(err.Error()) > 64*(len(content)+64) {
			t.Errorf("%d bytes of mistakes about %d bytes", len(err.Error()), len(content))
		}
		return
	}
	if mistakes := validate(c); len(mistakes) > 0 {
		t.Fatalf("accepted what is invalid: %v", mistakes.ToAggregate())
	}
	effective, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	again, err := parse("effective", effective)
	if err != nil {
		t.Fatalf("the effective configuration %s is refused: %v", effective, err)
	}
	if diff := cmp.Diff(c, again); diff != "" {
		t.Errorf("the effective configuration reads otherwise (-was +is):\n%s", diff)
	}
}

// FuzzParseManager: reading any file ends with a valid configuration or with mistakes.
func FuzzParseManager(f *testing.F) {
	f.Fuzz(func(t *testing.T, content []byte) { checkParsed(t, content, ParseManager, configv1alpha1.Validate) })
}

// FuzzParseAgent: reading any file ends with a valid configuration or with mistakes.
func FuzzParseAgent(f *testing.F) {
	f.Fuzz(func(t *testing.T, content []byte) { checkParsed(t, content, ParseAgent, configv1alpha1.ValidateAgent) })
}
