// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
)

// version is set at the link: -ldflags "-X main.version=…".
var version = "unknown"

func describeVersion() string {
	return fmt.Sprintf("holdfast agent %s (%s, %s/%s)", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
