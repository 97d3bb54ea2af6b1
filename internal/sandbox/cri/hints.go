// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"strings"
	"time"

	"github.com/go-logr/logr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/holdfast-dev/holdfast/internal/sandbox"
)

var _ sandbox.Hinter = &Runtime{}

// lastHintRetry bounds the back-off after a stream of events failed or ended.
const lastHintRetry = time.Minute

// Hint implements sandbox.Hinter. Readers of events of containerd before 2.0 share one channel, and the kubelet would miss what the agent
// reads, so it reads none there. The version is read again after each back-off, since a runtime may be upgraded.
func (r *Runtime) Hint(ctx context.Context, changed func()) {
	ctx = klog.NewContext(ctx, logr.Discard())
	retry := time.Second
	for ctx.Err() == nil {
		if service, _, err := r.connect(ctx); err == nil && givesEachReaderItsOwn(ctx, service) {
			if read(ctx, service, changed) {
				retry = time.Second
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
		retry = min(2*retry, lastHintRetry)
	}
}

// read calls changed for every event until the stream ends; it gives true if there was an event.
func read(ctx context.Context, service reads, changed func()) bool {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan *runtimeapi.ContainerEventResponse)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// The reason why the stream ended does not matter.
		_ = service.GetContainerEvents(ctx, events, nil)
	}()
	// The client blocks on the channel, so it is read until the client has ended.
	defer func() {
		cancel()
		for {
			select {
			case <-events:
			case <-ended:
				return
			}
		}
	}()
	had := false
	for {
		select {
		case <-events:
			had = true
			changed()
		case <-ended:
			return had
		case <-ctx.Done():
			return had
		}
	}
}

func givesEachReaderItsOwn(ctx context.Context, service reads) bool {
	version, err := service.Version(ctx, "")
	if err != nil {
		return false
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(version.RuntimeVersion, "v"), ".")
	return version.RuntimeName != containerd || (major != "0" && major != "1")
}
