// SPDX-License-Identifier: Apache-2.0

// Package cri serves the Container Runtime Interface of one simulated machine at a unix socket, as its container runtime
// does: every response is read from the simulated runtime's own table at the moment of the call. It is there whenever the
// machine is on, whether its kubelet hangs or its network is cut, and refuses connections while the machine is off.
//
// Served is what Holdfast's agent calls; everything else returns Unimplemented.
package cri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/runtime"
)

// Options of the runtime service of one machine. All are required.
type Options struct {
	// Socket is the path of the unix socket. What is there is replaced.
	Socket string
	// Runtime has the machine's sandboxes.
	Runtime *runtime.Runtime
}

// Server serves until Stop.
type Server struct{ grpc *grpc.Server }

// Serve listens at the socket and returns.
func Serve(ctx context.Context, o Options) (*Server, error) {
	// What an earlier boot left: its listener is closed, its file is still there.
	if err := os.Remove(o.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("CRI socket: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", o.Socket)
	if err != nil {
		return nil, fmt.Errorf("CRI socket: %w", err)
	}
	// A machine that is off has its socket's file, and no process listens there.
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	s := &Server{grpc: grpc.NewServer()}
	runtimeapi.RegisterRuntimeServiceServer(s.grpc, &service{Options: o})
	go func() { _ = s.grpc.Serve(listener) }() // an error only where it was stopped before it began
	return s, nil
}

// Stop breaks every connection, and returns when the socket is closed. Stopping twice is allowed.
func (s *Server) Stop() { s.grpc.Stop() }
