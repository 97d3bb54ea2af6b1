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

func TestAnAPIServerThatIsTooOldIsRefused(t *testing.T) {
	for served, refusal := range map[string]string{
		`{"gitVersion": "v1.31.0"}`:  "",
		`{"gitVersion": "v1.30.14"}`: "the API server is Kubernetes v1.30.14: 1.31 or newer is needed",
		`no JSON`:                    "reading the version of the API server",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/version" {
				fmt.Fprint(w, served)
			}
		}))
		err := checkKubernetes(&rest.Config{Host: server.URL})
		server.Close()
		if (err != nil) != (refusal != "") || err != nil && !strings.Contains(err.Error(), refusal) {
			t.Errorf("%s: %v, want %q", served, err, refusal)
		}
	}
}
