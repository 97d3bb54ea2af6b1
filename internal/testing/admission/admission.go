// SPDX-License-Identifier: Apache-2.0

// Package admission configures the admission policies of an installation for suites.
package admission

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TrustKubelets lists accounts as those of kubelets in a policy that has such a list, as an administrator does; it leaves every other
// object unchanged. Suites in which an administrator writes what a kubelet would need it.
func TrustKubelets(object *unstructured.Unstructured, accounts ...string) error {
	if object.GetKind() != "ValidatingAdmissionPolicy" {
		return nil
	}
	variables, _, err := unstructured.NestedSlice(object.Object, "spec", "variables")
	if err != nil || len(variables) == 0 {
		return err
	}
	first, isObject := variables[0].(map[string]any)
	if !isObject {
		return fmt.Errorf("policy %s: its first variable is no object", object.GetName())
	}
	if first["name"] != "kubeletAccounts" {
		return nil
	}
	list, err := json.Marshal(accounts)
	if err != nil {
		return err
	}
	first["expression"] = string(list)
	return unstructured.SetNestedSlice(object.Object, variables, "spec", "variables")
}
