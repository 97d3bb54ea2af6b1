// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"reflect"
	"strings"
	"testing"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
)

// TestReferenceNamesEveryField keeps docs/reference/configuration.md complete.
func TestReferenceNamesEveryField(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths("", reflect.ValueOf(&configv1alpha1.ManagerConfiguration{}).Elem()) {
		if path != "apiVersion" && path != "kind" && !strings.Contains(string(page), "`"+path+"`") {
			t.Errorf("%s is not on the page", path)
		}
	}
}

func paths(prefix string, structure reflect.Value) []string {
	var all []string
	for name, value := range fieldsOf(structure) {
		if isStructure(value) {
			all = append(all, paths(prefix+name+".", value)...)
		} else {
			all = append(all, prefix+name)
		}
	}
	return all
}
