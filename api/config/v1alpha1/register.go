// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// GroupVersion is the group and version of every configuration file in this package.
var GroupVersion = schema.GroupVersion{Group: "config.holdfast.dev", Version: "v1alpha1"}

// ManagerConfigurationKind is the kind of the manager's file.
const ManagerConfigurationKind = "ManagerConfiguration"
