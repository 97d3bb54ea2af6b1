// SPDX-License-Identifier: Apache-2.0

// Package samples has no code: its tests take what users copy for what it is. Every manifest below config/samples is rendered and decoded
// strictly, its networks are read as the webhook reads them, and its configurations as the binaries do. What the documents show, YAML,
// commands, flags, settings and metrics, is looked for in the code.
package samples
