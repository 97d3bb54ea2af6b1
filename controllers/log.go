// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// logOf is the logger of a controller with requests that are no namespaced names: each line has the request.
func logOf[request comparable](mgr manager.Manager, controller, key string) func(*request) logr.Logger {
	base := mgr.GetLogger().WithValues("controller", controller)
	return func(about *request) logr.Logger {
		if about == nil {
			return base
		}
		return base.WithValues(key, *about)
	}
}
