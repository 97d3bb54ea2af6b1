// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/uninstall"
)

func TestConsent(t *testing.T) {
	cases := map[string]struct {
		answer string
		want   error
	}{
		"yes":                       {"yes\n", nil},
		"yes with a line of spaces": {"  yes \r\n", nil},
		"y is not yes":              {"y\n", ErrNoConsent},
		"no":                        {"no\n", ErrNoConsent},
		"an empty line":             {"\n", ErrNoConsent},
		"the end of the input":      {"", ErrNoConsent},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var asked bytes.Buffer
			if err := (&Flags{}).consent(t.Context(), strings.NewReader(tc.answer), &asked); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if !strings.Contains(asked.String(), "(yes/no)") {
				t.Errorf("asked %q", asked.String())
			}
		})
	}
}

func TestAFileIsNoAnswer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, []byte("yes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := (&Flags{}).consent(t.Context(), file, &bytes.Buffer{}); !errors.Is(err, ErrNoConsent) {
		t.Errorf("got %v", err)
	}
}

func TestASignalEndsTheQuestion(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := (&Flags{}).consent(ctx, neverReads{}, &bytes.Buffer{}); !errors.Is(err, uninstall.ErrStopped) {
		t.Errorf("got %v", err)
	}
}

type neverReads struct{}

func (neverReads) Read([]byte) (int, error) { select {} }

func TestTheClientOfAnUninstallationHasOneLimitForAll(t *testing.T) {
	given := &rest.Config{Host: "https://127.0.0.1:1"}
	if _, err := newClient(given, 7); err != nil {
		t.Fatal(err)
	}
	if given.RateLimiter != nil || given.QPS != 0 {
		t.Error("the caller's configuration was changed")
	}
}
