// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"reflect"
	"slices"
	"testing"
)

// The agent is root through the socket of the runtime: a further call has to be added here too.
func TestTheAgentCanCallNothingThatChangesTheRuntime(t *testing.T) {
	want := []string{"Close", "GetContainerEvents", "ListContainers", "ListPodSandbox", "PodSandboxStatus", "Status", "Version"}
	var got []string
	for method := range reflect.TypeFor[reads]().Methods() {
		got = append(got, method.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the agent can call %q, want %q", got, want)
	}
	if field, _ := reflect.TypeFor[Runtime]().FieldByName("service"); field.Type != reflect.TypeFor[reads]() {
		t.Errorf("a Runtime keeps its connection as %s, which has more", field.Type)
	}
}
