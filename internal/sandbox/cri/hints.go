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

// lastHintRetry bounds the back-off after a stream of events that could not be had, or ended.
const lastHintRetry = time.Minute

// Hint is sandbox.Hinter's. containerd before 2.0 has one channel of events for all who read it, so that what we read the
// kubelet would miss: its events are left alone. A runtime that offers none is asked again now and then: it may be upgraded.
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

// read calls changed for every event until the stream ends; true if there was one.
func read(ctx context.Context, service reads, changed func()) bool {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan *runtimeapi.ContainerEventResponse)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Why a stream of hints ended does not matter.
		_ = service.GetContainerEvents(ctx, events, nil)
	}()
	// The client always writes to the channel: it is read until the client has ended.
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
