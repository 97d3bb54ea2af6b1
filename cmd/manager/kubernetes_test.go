// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestSupportedKubernetes(t *testing.T) {
	for served, want := range map[string]string{
		"v1.30.14":     "Holdfast needs 1.31 or later",
		"v1.31.4+k3s1": "",
		"v1.37.1":      "",
		"":             "expected one like",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/version" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprintf(w, `{"gitVersion": %q}`, served)
		}))
		defer server.Close()
		found, err := supportedKubernetes(&rest.Config{Host: server.URL})
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: got %v, expected %q", served, err, want)
		case want == "" && (err != nil || found.Major() != 1 || found.Minor() < 31):
			t.Errorf("%q: got %v, %v", served, found, err)
		}
	}
	if _, err := supportedKubernetes(&rest.Config{Host: "http://127.0.0.1:1"}); err == nil || !strings.Contains(err.Error(), "reading the API server's version") {
		t.Errorf("no API server: %v", err)
	}
}
