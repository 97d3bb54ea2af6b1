// SPDX-License-Identifier: Apache-2.0

// Command pause waits until it is told to end: the process of the sandboxes, and of the containers, of test/node.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	<-told
}
