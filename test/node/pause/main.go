// SPDX-License-Identifier: Apache-2.0

// Command pause waits until a signal ends it: the process of the sandboxes, and of the containers, of test/node.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
}
