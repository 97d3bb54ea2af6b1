// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// The namespaces of the arms. The API server calls the manager in the first and the null webhook in the second. The pods of the third are
// protected already.
const (
	oursNamespace = "bench-holdfast"
	nullNamespace = "bench-null"
	bareNamespace = "bench-bare"

	nullName = "null-webhook"
)

// nullPatch is what the manager returns for the pods of the benchmark.
const nullPatch = `[{"op":"add","path":"/metadata/finalizers","value":["` + v1alpha1.Finalizer + `"]},` +
	`{"op":"add","path":"/metadata/labels/holdfast.dev~1guarded","value":"true"}]`

// ServeNull is the null webhook: net/http, and fixed bytes but for the UID, which the API server compares. It returns when ctx is done.
func ServeNull(ctx context.Context, address, certFile, keyFile string) error {
	before := []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"`)
	after := []byte(`","allowed":true,"patchType":"JSONPatch","patch":"` + base64.StdEncoding.EncodeToString([]byte(nullPatch)) + `"}}`)
	uid := []byte(`"request":{"uid":"`)
	server := &http.Server{Addr: address, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		_, rest, found := bytes.Cut(body, uid)
		value, _, ends := bytes.Cut(rest, []byte(`"`))
		if err != nil || !found || !ends {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(slices.Concat(before, value, after))
	})}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServeTLS(certFile, keyFile); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// besideNull makes the three namespaces, starts the null webhook, and has the API server call it in its namespace under the same conditions as the
// manager in the other. Each configuration is tested against every pod, in each arm.
func (w *world) besideNull(ctx context.Context) error {
	for _, name := range []string{oursNamespace, nullNamespace, bareNamespace} {
		if err := w.namespace(ctx, name); err != nil {
			return err
		}
	}
	config, err := w.startNull(ctx)
	if err != nil {
		return err
	}
	ours, err := w.protectConfiguration(ctx)
	if err != nil {
		return err
	}
	null := ours.DeepCopy()
	null.ObjectMeta = metav1.ObjectMeta{Name: nullName}
	null.Webhooks[0].Name, null.Webhooks[0].ClientConfig = "null.bench.holdfast.dev", config
	for c, operator := range map[*admissionregistrationv1.MutatingWebhookConfiguration]metav1.LabelSelectorOperator{ours: metav1.LabelSelectorOpNotIn, null: metav1.LabelSelectorOpIn} {
		selector := c.Webhooks[0].NamespaceSelector
		selector.MatchExpressions = append(selector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: operator, Values: []string{nullNamespace}})
	}
	if err := w.seed.Update(ctx, ours); err != nil {
		return err
	}
	if err := w.seed.Create(ctx, null); err != nil {
		return err
	}
	return w.awaitWebhooks(ctx)
}

// protectConfiguration is that of the webhook of pods. Older versions gave it another name.
func (w *world) protectConfiguration(ctx context.Context) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	var all admissionregistrationv1.MutatingWebhookConfigurationList
	if err := w.seed.List(ctx, &all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if c := &all.Items[i]; strings.HasPrefix(c.Name, "holdfast-") && slices.Contains(c.Webhooks[0].Rules[0].Resources, "pods") {
			return c, nil
		}
	}
	return nil, errors.New("no MutatingWebhookConfiguration of Holdfast is for pods")
}

// awaitWebhooks waits until the API server knows the configurations, and pods of both webhooks come out the same.
func (w *world) awaitWebhooks(ctx context.Context) error {
	return await(ctx, "both webhooks to protect pods in the same way", func(ctx context.Context) (bool, error) {
		made := map[string]metav1.ObjectMeta{}
		for _, p := range []*corev1.Pod{onNetwork(oursNamespace, "probe"), onNetwork(nullNamespace, "probe"), protected(bareNamespace, "probe")} {
			if err := w.seed.Create(ctx, p, client.DryRunAll); err != nil {
				return false, err
			}
			made[p.Namespace] = metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations, Finalizers: p.Finalizers}
		}
		return cmp.Equal(made[oursNamespace], made[nullNamespace]) && cmp.Equal(made[oursNamespace], made[bareNamespace]), nil
	})
}

func (w *world) startNull(ctx context.Context) (config admissionregistrationv1.WebhookClientConfig, err error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return config, fmt.Errorf("certificate of the null webhook: %w", err)
	}
	certFile, keyFile := filepath.Join(w.dir, "null.crt"), filepath.Join(w.dir, "null.key")
	if err := errors.Join(os.WriteFile(certFile, certificate, 0o600), os.WriteFile(keyFile, key, 0o600)); err != nil {
		return config, err
	}
	port, err := process.FreePort()
	if err != nil {
		return config, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := process.Start(process.Options{Name: nullName, Path: w.options.Program, LogFile: filepath.Join(w.dir, "logs", nullName+".log"),
		Args: []string{"bench", nullName, "--address", address, "--cert", certFile, "--key", keyFile}})
	if err != nil {
		return config, err
	}
	w.onStop(func() error { return p.Stop(0) })
	w.mutex.Lock()
	w.running[nullName] = p.PID()
	w.mutex.Unlock()
	url := "https://" + address + "/"
	return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: certificate}, nil
}
