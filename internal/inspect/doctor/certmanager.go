// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Issuing is what cert-manager has about the certificates of the installation.
type Issuing struct {
	Certificates []certmanagerv1.Certificate
	// Issuers are those of the namespace, and the ClusterIssuers that the certificates name.
	Issuers []Issuer
}

// Issuer is an Issuer or a ClusterIssuer.
type Issuer struct {
	Kind, Name string
	Conditions []certmanagerv1.IssuerCondition
}

// lateRenewal is how long after its time a renewal counts as late.
const lateRenewal = time.Hour

// issuing: cert-manager has issued each Certificate of the installation, and renews it in time.
func issuing(d *Diagnosis, f *Facts, now time.Time) {
	const name = "cert-manager"
	const elsewhere = "the writer of Secret holdfast-webhook-cert renews the serving certificate"
	switch {
	case f.Issuing.IsAbsent() && f.Certificate.IsAbsent():
		d.add(Fail, name, "the API server serves no Certificates of cert-manager, and there is no serving certificate", "install cert-manager, or write a certificate into the Secret yourself")
		return
	case f.Issuing.IsAbsent():
		d.ok(name, "not installed: %s", elsewhere)
		return
	case !d.knows(name, f.Issuing):
		return
	}
	found := f.Issuing.Get()
	// A valid certificate serves until it expires, also if cert-manager cannot issue the next one.
	level := Warn
	if !f.Certificate.IsKnown() {
		level = Fail
	}
	for i := range found.Certificates {
		if what, do := notIssued(f.Namespace, &found.Certificates[i], found.Issuers, now); what != "" {
			d.add(level, name, what, do)
		}
	}
	if len(found.Certificates) == 0 {
		d.ok(name, "the installation has no Certificate: %s", elsewhere)
	}
	d.ok(name, "%s", renewals(found.Certificates, now))
}

// notIssued is why a Certificate is not Ready or late, and what to do; both are empty where it is neither.
func notIssued(namespace string, c *certmanagerv1.Certificate, issuers []Issuer, now time.Time) (what, do string) {
	describe := fmt.Sprintf("kubectl -n %s describe certificate %s", namespace, c.Name)
	ready := slices.IndexFunc(c.Status.Conditions, func(c certmanagerv1.CertificateCondition) bool {
		return c.Type == certmanagerv1.CertificateConditionReady
	})
	switch {
	case ready < 0:
		return fmt.Sprintf("Certificate %s has no condition Ready: cert-manager has not looked at it", c.Name), "see whether cert-manager runs: kubectl -n cert-manager get pods"
	case c.Status.Conditions[ready].Status != cmmeta.ConditionTrue:
		what = fmt.Sprintf("Certificate %s is not Ready: %s, %s", c.Name, c.Status.Conditions[ready].Reason, c.Status.Conditions[ready].Message)
		if c.Status.FailedIssuanceAttempts != nil && c.Status.LastFailureTime != nil {
			what += fmt.Sprintf("; %d attempts failed, the last %s ago", *c.Status.FailedIssuanceAttempts, duration.HumanDuration(now.Sub(c.Status.LastFailureTime.Time)))
		}
		return what + "; " + issuerOf(c, issuers), describe
	case c.Status.RenewalTime != nil && now.Sub(c.Status.RenewalTime.Time) > lateRenewal:
		return fmt.Sprintf("Certificate %s should have been renewed %s ago; %s", c.Name, duration.HumanDuration(now.Sub(c.Status.RenewalTime.Time)), issuerOf(c, issuers)), describe
	}
	return "", ""
}

// issuerOf describes the issuer of a Certificate.
func issuerOf(c *certmanagerv1.Certificate, issuers []Issuer) string {
	kind := cmp.Or(c.Spec.IssuerRef.Kind, certmanagerv1.IssuerKind)
	at := slices.IndexFunc(issuers, func(i Issuer) bool { return i.Kind == kind && i.Name == c.Spec.IssuerRef.Name })
	if at < 0 {
		return fmt.Sprintf("its %s %s was not found", kind, c.Spec.IssuerRef.Name)
	}
	for _, condition := range issuers[at].Conditions {
		if condition.Type == certmanagerv1.IssuerConditionReady && condition.Status != cmmeta.ConditionTrue {
			return fmt.Sprintf("its %s %s is not Ready: %s, %s", kind, c.Spec.IssuerRef.Name, condition.Reason, condition.Message)
		}
	}
	return fmt.Sprintf("its %s is %s", kind, c.Spec.IssuerRef.Name)
}

// renewals lists when each Certificate renews.
func renewals(certificates []certmanagerv1.Certificate, now time.Time) string {
	var texts []string
	for i := range certificates {
		text := certificates[i].Name + " is Ready"
		if at := certificates[i].Status.RenewalTime; at != nil {
			text += " and renews in " + duration.HumanDuration(max(at.Sub(now), 0))
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}
