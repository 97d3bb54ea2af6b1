// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/holdfast-dev/holdfast/internal/reportpolicy"
)

// renewal is how long before its end cert-manager renews the serving certificate (config/certmanager), less a day of grace.
const renewal = 29 * 24 * time.Hour

// leaf is the serving certificate.
func leaf(f *Facts) (*x509.Certificate, error) {
	if !f.Certificate.IsKnown() {
		return nil, errors.New(f.Certificate.Why())
	}
	block, _ := pem.Decode(f.Certificate.Get().Data[corev1.TLSCertKey])
	if block == nil {
		return nil, errors.New("there is no PEM block in it")
	}
	return x509.ParseCertificate(block.Bytes)
}

// certificate: it is there, fresh, and for the Service's name.
func certificate(d *Diagnosis, f *Facts, now time.Time) {
	const name = "certificate"
	mend := "look at the Certificate and at cert-manager: kubectl -n " + f.Namespace + " describe certificate holdfast-webhook"
	if !d.exists(name, f.Certificate, "there is no Secret holdfast-webhook-cert", mend) {
		return
	}
	served, err := leaf(f)
	if err != nil {
		d.add(Fail, name, "the Secret holdfast-webhook-cert has no certificate that can be read: "+err.Error(), mend)
		return
	}
	host := "holdfast-webhook." + f.Namespace + ".svc"
	left := duration.HumanDuration(served.NotAfter.Sub(now))
	switch {
	case now.After(served.NotAfter):
		d.add(Fail, name, "it ended at "+served.NotAfter.UTC().Format(time.RFC3339)+": the API server trusts no webhook of Holdfast", mend)
	case served.VerifyHostname(host) != nil:
		d.add(Fail, name, fmt.Sprintf("it is not for %s: %v", host, served.VerifyHostname(host)), mend)
	case served.NotAfter.Sub(now) < renewal && served.NotAfter.Sub(served.NotBefore) > 2*renewal:
		d.add(Warn, name, fmt.Sprintf("it ends in %s, and should have been renewed by now", left), mend)
	default:
		d.ok(name, "for %s, ends in %s", host, left)
	}
}

// webhooks: each of Holdfast's is there, trusts the certificate, and has a replica behind it.
func webhooks(d *Diagnosis, f *Facts, now time.Time) {
	const name = "webhooks"
	if !d.knows(name, f.Webhooks) {
		return
	}
	present, count := map[string]bool{}, 0
	for _, w := range f.Webhooks.Get() {
		if !w.Ours {
			continue
		}
		count++
		present[w.Configuration] = true
		if what, do := brokenWebhook(f, &w, now); what != "" {
			d.add(Fail, name, fmt.Sprintf("%s (%s) %s", w.Name, w.Configuration, what), do)
		}
	}
	for _, wanted := range []string{"holdfast-protect", "holdfast-release", "holdfast-slices"} {
		if !present[wanted] {
			d.add(Fail, name, "there is no webhook configuration "+wanted, "apply the installation again")
		}
	}
	d.ok(name, "%d, each trusts the serving certificate and has a replica behind it", count)
}

// brokenWebhook leaves a certificate that cannot be read to the check of the certificate.
func brokenWebhook(f *Facts, w *Webhook, now time.Time) (what, do string) {
	const inject = "look at cert-manager's CA injector, and at the annotation cert-manager.io/inject-ca-from of the configuration"
	served, err := leaf(f)
	switch {
	case len(w.CABundle) == 0:
		return "has no authority (caBundle): the API server cannot call it, and its failurePolicy decides", inject
	case hasNoEndpoint(w):
		return "has no ready endpoint behind its Service " + w.Service + ": every call fails, and its failurePolicy decides", "see the check of the manager's replicas"
	case err != nil:
		return "", ""
	}
	if err := trusts(w.CABundle, f.Certificate.Get().Data[corev1.TLSCertKey], served, now); err != nil {
		return "does not trust the serving certificate: " + err.Error(), inject
	}
	return "", ""
}

func hasNoEndpoint(w *Webhook) bool { return w.Ready.IsKnown() && w.Ready.Get() == 0 }

// trusts verifies the served certificate, with the others of its chain, against an authority.
func trusts(bundle, chain []byte, served *x509.Certificate, now time.Time) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return errors.New("its caBundle has no certificate")
	}
	between.AppendCertsFromPEM(chain)
	_, err := served.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}

// admissionPolicies: each policy of config/policies is installed, fails closed where it has to, and denies.
func admissionPolicies(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "admission policies"
	if !d.knows(name, f.AdmissionPolicies) {
		return
	}
	found := f.AdmissionPolicies.Get()
	for _, policy := range reportpolicy.Installed {
		if judged := reportpolicy.Judge(policy, found.Policies, found.Bindings); !judged.InForce() {
			d.add(Fail, name, judged.Problem, judged.Fix)
		}
	}
	d.ok(name, "%d, and each denies what it is about", len(reportpolicy.Installed))
}

// protection: the API server really protects.
func protection(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "protection"
	switch shown := f.Protection.Get(); {
	case !d.knows(name, f.Protection):
	case isShadow(f) && (shown.Finalizer || shown.Label):
		d.add(Fail, name, "the mode is Shadow, and a pod that names a network was protected in a dry run: by the API server itself, or by a manager in mode Guard",
			"take the component admission-policy-protection out, and delete its policy; or see whether an older replica still runs")
	case isShadow(f):
		d.ok(name, "a pod that names a network was not protected in a dry run: the mode is Shadow")
	case !shown.Finalizer || !shown.Label:
		d.add(Fail, name, "a pod that names a network was not protected in a dry run: the webhook was not called, or its call failed", "see the checks of webhooks, certificate and replicas, and the API server's log for protect.holdfast.dev")
	default:
		d.ok(name, "a pod that names a network was protected in a dry run")
	}
}

// foreign: webhooks of others that can stop an update of pods, so that no finalizer can be removed.
func foreign(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "webhooks of others"
	if !d.knows(name, f.Webhooks) {
		return
	}
	var mutating []string
	for _, w := range f.Webhooks.Get() {
		if w.Ours || !w.UpdatesPods {
			continue
		}
		if w.FailsClosed && hasNoEndpoint(&w) {
			d.add(Fail, name, fmt.Sprintf("%s (%s) is called for updates of pods, fails closed, and has no ready endpoint behind its Service %s: no finalizer comes off", w.Name, w.Configuration, w.Service),
				"bring its Service back, or delete its configuration")
		}
		if w.Mutating {
			mutating = append(mutating, w.Name)
		}
	}
	slices.Sort(mutating)
	if len(mutating) > 0 && !d.has(name) {
		d.add(Warn, name, "these may change pods at every update: "+strings.Join(mutating, ", "),
			"one that changes a pod's spec makes every update of it fail (kubernetes#109164); Holdfast then goes through pods/status. See the check of pod updates")
	}
	d.ok(name, "none stops updates of pods")
}

// updates: dry runs of the patch that removes a finalizer.
func updates(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "pod updates"
	if f.UpdatesUnread != "" {
		d.unread(name, f.UpdatesUnread)
		return
	}
	refused, worst := 0, Update{}
	for _, u := range f.Updates {
		if u.Refused != "" {
			refused++
			if worst.Pod == "" || (u.StatusRefused != "" && worst.StatusRefused == "") {
				worst = u
			}
		}
	}
	switch {
	case len(f.Updates) == 0:
		d.ok(name, "there is no guarded pod to try")
	case worst.StatusRefused != "":
		d.add(Fail, name, fmt.Sprintf("pod %s can be changed neither directly (%s) nor through pods/status (%s): its finalizer cannot come off", worst.Pod, worst.Refused, worst.StatusRefused),
			"find the webhook or policy that the message names")
	case refused > 0:
		d.add(Warn, name, fmt.Sprintf("%d of %d guarded pods that were tried cannot be changed directly (%s: %s); through pods/status they can, which Holdfast does", refused, len(f.Updates), worst.Pod, worst.Refused),
			"find the webhook or policy that the message names")
	default:
		d.ok(name, "a dry run went through for %d guarded pods", len(f.Updates))
	}
}

// bootstrap: whether the guard can keep the cluster, or itself, from starting.
func bootstrap(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "bootstrap"
	if !d.knows(name, f.Webhooks) {
		return
	}
	for _, w := range f.Webhooks.Get() {
		switch {
		case !w.Ours || !w.CreatesPods || !w.FailsClosed:
		case w.Everywhere:
			d.add(Fail, name, w.Name+" fails closed for pods of every namespace: with no manager alive, no pod starts, the manager's own included", "keep kube-system and the manager's namespace away (namespaceSelector), as the installation does")
			return
		default:
			d.add(Warn, name, w.Name+" fails closed: with no manager alive, no pod that it concerns starts (component fail-closed)", "accept that, or leave the component out")
			return
		}
	}
	d.ok(name, "with no manager alive, every pod starts")
}

// namedPods is how many pods a line names.
const namedPods = 3

// unprotected: pods that hold an address without the finalizer. The manager adds it within seconds; if there are none, that is not worth a
// line.
func unprotected(d *Diagnosis, f *Facts, _ time.Time) {
	const name = "unprotected pods"
	count := len(f.Unprotected)
	if count == 0 {
		return
	}
	found := fmt.Sprintf("%d pods hold an address and have the label without the finalizer: %s", count, strings.Join(f.Unprotected[:min(count, namedPods)], ", "))
	if count > namedPods {
		found += fmt.Sprintf(" and %d more", count-namedPods)
	}
	ready, _ := readyReplicas(f)
	switch {
	case isShadow(f):
		d.add(Warn, name, found, "nothing, as long as the mode is Shadow: it protects no pod")
	case ready == 0:
		d.add(Fail, name, found+"; no replica of the manager is Ready to add it", "bring the manager back: kubectl -n "+f.Namespace+" get pods -o wide")
	default:
		d.add(Warn, name, found, "nothing: the manager adds the finalizer within seconds. If they stay, see the manager's log; the event ProtectedAgain names who removes it")
	}
}
