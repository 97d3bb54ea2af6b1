// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/holdfast-dev/holdfast/cmd/internal/program"

// version is set at the link: -ldflags "-X main.version=…".
var version = "unknown"

func describeVersion() string { return program.Describe("holdfast manager", version) }
