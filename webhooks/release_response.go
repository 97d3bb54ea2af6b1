// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/eventlimit"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/releaseguard"
)

const (
	// maxExplained is how many removals a response explains.
	maxExplained = 3
	// allowedByWarn precedes what mode Deny would have responded.
	allowedByWarn = "Allowed, because the mode is Warn; in mode Deny: "
)

// finding is a judgement and the object that it is about, nil where there is none.
type finding struct {
	releaseguard.Judgment
	about runtime.Object
}

func (f finding) isRefusal() bool { return f.Outcome != releaseguard.Allow }

// respond judges an authentic request in time and responds by the mode.
func (g *releaseGuard) respond(ctx context.Context, req *admission.Request, r registration, judge func(context.Context, *admission.Request) []finding) admission.Response {
	if !g.judges(req.Namespace) {
		return admission.Allowed("")
	}
	started := g.options.Clock.Now()
	reads, cancel := context.WithTimeout(ctx, g.options.Timeout)
	defer cancel()
	if g.authentic != nil {
		if err := g.authentic.check(reads, r, req); err != nil {
			return CouldNotTell(err)
		}
	}
	findings := judge(reads, req)
	metrics.UnsafeReleaseDuration.WithLabelValues(r.resource).Observe(g.options.Clock.Since(started).Seconds())

	var refused, lost []string
	for _, f := range findings {
		metrics.UnsafeReleases.WithLabelValues(r.resource, g.decision(f), string(f.Reason)).Inc()
		switch {
		case f.isRefusal() && g.options.Mode == configv1alpha1.ReleaseModeWarn:
			refused = append(refused, allowedByWarn+f.Message)
		case f.isRefusal():
			refused = append(refused, f.Message)
		case f.Message != "":
			lost = append(lost, f.Message)
		}
		g.emit(req, f)
	}
	messages := slices.Concat(refused, lost)
	if len(messages) == 0 {
		return admission.Allowed("")
	}
	logf.FromContext(ctx).Info("A removal is not proven safe", "mode", g.options.Mode, "operation", req.Operation,
		"unsafe", len(refused), "unreadable", len(lost), "first", messages[0])
	if len(refused) > 0 && g.options.Mode != configv1alpha1.ReleaseModeWarn {
		return admission.Denied(strings.Join(abridge(refused), " "))
	}
	return admission.Allowed("").WithWarnings(abridge(messages)...)
}

// judges says whether removals in a namespace are judged. Of pools elsewhere the manager sees nothing: a DEL that is left to it would never be made good.
func (g *releaseGuard) judges(namespace string) bool {
	return g.options.Mode != configv1alpha1.ReleaseModeOff && g.options.Backend.Guards(namespace)
}

// decision is the treatment of a finding, as a value of the metric's label.
func (g *releaseGuard) decision(f finding) string {
	switch {
	case !f.isRefusal():
		return metrics.UnsafeReleaseAllowed
	case g.options.Mode == configv1alpha1.ReleaseModeWarn:
		return metrics.UnsafeReleaseWarned
	case f.Outcome == releaseguard.Defer:
		return metrics.UnsafeReleaseDeferred
	default:
		return metrics.UnsafeReleaseRefused
	}
}

func abridge(messages []string) []string {
	if len(messages) <= maxExplained {
		return messages
	}
	return append(messages[:maxExplained:maxExplained], fmt.Sprintf("And %d more.", len(messages)-maxExplained))
}

// emit writes an event on the owner of an address that is not proven free. A deferred DEL gets none, since there is nothing to do, and a dry run
// leaves no trace.
func (g *releaseGuard) emit(req *admission.Request, f finding) {
	if f.Message == "" || f.Outcome == releaseguard.Defer || f.about == nil || req.DryRun != nil && *req.DryRun {
		return
	}
	object, err := meta.Accessor(f.about)
	if err != nil || !g.events.Allow(object.GetUID(), f.Reason) {
		return
	}
	reason, note := v1alpha1.ReasonUnsafeReleaseRefused, f.Message
	switch {
	case !f.isRefusal():
		reason = v1alpha1.ReasonMalformedPool
	case g.options.Mode == configv1alpha1.ReleaseModeWarn:
		reason, note = v1alpha1.ReasonUnsafeReleaseWarned, allowedByWarn+note
	}
	g.recorder.Eventf(f.about, nil, corev1.EventTypeWarning, string(reason), "GuardRelease", "%s", eventlimit.Note(note))
}

// eventBounds keep a client that repeats its writes, a reconciler for one, from flooding the API server with events.
var eventBounds = eventlimit.Options{Interval: 5 * time.Minute, Memory: 4096, PerSecond: 1, Burst: 25}
