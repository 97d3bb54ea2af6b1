// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
)

// webhook is an entry of a configuration, with its conditions compiled.
type webhook struct {
	name              string
	client            admissionregistrationv1.WebhookClientConfig
	scope             scope
	conditions        matchconditions.Matcher
	ignoresFailures   bool
	timeout           time.Duration
	mutating          bool
	hasNoDryRunEffect bool
}

// call calls a webhook about a write that it is for. It returns the object as the webhook changed it, or nil.
func (s *Server) call(hook *webhook, r *review) (object, error) {
	selected, err := hook.scope.selects(r)
	if err != nil || !selected {
		return nil, err
	}
	if hook.conditions != nil {
		result := hook.conditions.Match(r.q.http.Context(), r.attributes, nil, nil)
		if result.Error != nil {
			return nil, apierrors.NewForbidden(r.q.kind.resource(), r.q.name, result.Error)
		}
		if !result.Matches {
			return nil, nil
		}
	}
	if r.q.isDryRun() && !hook.hasNoDryRunEffect {
		return nil, webhookerrors.NewDryRunUnsupportedErr(hook.name)
	}
	response, err := s.review(hook, r)
	if err != nil {
		if hook.ignoresFailures {
			return nil, nil
		}
		return nil, apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: %w", hook.name, err))
	}
	if !response.Allowed {
		return nil, webhookerrors.ToStatusErr(hook.name, response.Result)
	}
	if len(response.Patch) == 0 {
		return nil, nil
	}
	return applied(response.Patch, r.next)
}

func applied(raw []byte, o object) (object, error) {
	patch, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	before, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var out object
	return out, utiljson.Unmarshal(after, &out)
}

// review sends the review and returns the response, if it is one.
func (s *Server) review(hook *webhook, r *review) (*admissionv1.AdmissionResponse, error) {
	var handler http.Handler
	if s.options.Webhook != nil {
		handler = s.options.Webhook(hook.client)
	}
	if handler == nil {
		return nil, fmt.Errorf("no endpoints available")
	}
	uid := types.UID(s.newUID("admissionreviews", "", ""))
	body, err := r.encode(uid)
	if err != nil {
		return nil, err
	}
	recorder, err := hook.post(r.q.http.Context(), handler, body)
	if err != nil {
		return nil, err
	}
	if recorder.Code != http.StatusOK {
		return nil, fmt.Errorf("the server responded with status %d", recorder.Code)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil {
		return nil, err
	}
	return hook.verified(uid, &review)
}

// verified is the response of a review, if it is one to this request.
func (hook *webhook) verified(uid types.UID, review *admissionv1.AdmissionReview) (*admissionv1.AdmissionResponse, error) {
	response := review.Response
	switch {
	case review.Kind != "AdmissionReview" || review.APIVersion != admissionv1.SchemeGroupVersion.String():
		return nil, fmt.Errorf("expected an AdmissionReview, got %s %s", review.APIVersion, review.Kind)
	case response == nil:
		return nil, fmt.Errorf("webhook response was absent")
	case response.UID != uid:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, response.UID)
	case (len(response.Patch) > 0) != (response.PatchType != nil):
		return nil, fmt.Errorf("response.patch and response.patchType go together")
	case !hook.mutating && response.PatchType != nil:
		return nil, fmt.Errorf("validating webhook may not return response.patch")
	}
	return response, nil
}

// post waits for the handler no longer than the webhook's timeout.
func (hook *webhook) post(ctx context.Context, handler http.Handler, body []byte) (*httptest.ResponseRecorder, error) {
	ctx, cancel := context.WithTimeout(ctx, hook.timeout)
	defer cancel()
	target := "/"
	switch service := hook.client.Service; {
	case hook.client.URL != nil:
		target = *hook.client.URL
	case service != nil && service.Path != nil:
		target = *service.Path
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	recorder, done := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(done)
		handler.ServeHTTP(recorder, request)
	}()
	select {
	case <-done:
		return recorder, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *review) encode(uid types.UID) ([]byte, error) {
	request := plugincel.CreateAdmissionRequest(r.attributes.Attributes,
		metav1.GroupVersionResource(r.q.kind.groupVersionResource()), metav1.GroupVersionKind(r.q.kind.GroupVersionKind))
	request.UID = uid
	for field, o := range map[*runtime.RawExtension]object{&request.Object: r.next, &request.OldObject: r.old} {
		if o == nil {
			continue
		}
		raw, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		field.Raw = raw
	}
	request.UserInfo = r.q.userInfo()
	return json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request})
}
