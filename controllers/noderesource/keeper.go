// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

func setupKeeper(_ context.Context, _ manager.Manager, _ Options) error { return nil }
