// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"
	"testing"
	"time"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/release"
)

// issued is a Certificate that cert-manager renews at a time.
func issued(renewal time.Time) certmanagerv1.Certificate {
	return certmanagerv1.Certificate{ObjectMeta: metav1.ObjectMeta{Name: "holdfast-webhook"},
		Spec: certmanagerv1.CertificateSpec{IssuerRef: cmmeta.IssuerReference{Name: "holdfast-ca"}},
		Status: certmanagerv1.CertificateStatus{RenewalTime: &metav1.Time{Time: renewal},
			Conditions: []certmanagerv1.CertificateCondition{{Type: certmanagerv1.CertificateConditionReady, Status: cmmeta.ConditionTrue}}}}
}

func refused(change func(*certmanagerv1.Certificate)) certmanagerv1.Certificate {
	c := issued(now)
	c.Status.Conditions[0] = certmanagerv1.CertificateCondition{Type: certmanagerv1.CertificateConditionReady, Status: cmmeta.ConditionFalse, Reason: "DoesNotExist", Message: "no Secret"}
	change(&c)
	return c
}

func TestIssuing(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Facts)
		level  Level
		found  string
	}{
		"it is issued, and will be renewed": {func(f *Facts) { f.Issuing = known(issued(now.Add(30 * day))) }, OK, "holdfast-webhook is Ready and renews in 30d"},
		"there is no cert-manager":          {func(f *Facts) { f.Issuing = release.Absent[Issuing]() }, OK, "not installed: the writer of Secret"},
		"there is no cert-manager, and no certificate": {func(f *Facts) {
			f.Issuing, f.Certificate = release.Absent[Issuing](), release.Absent[*corev1.Secret]()
		}, Fail, "serves no Certificates of cert-manager"},
		"the installation has no Certificate": {func(f *Facts) { f.Issuing = known() }, OK, "has no Certificate"},
		"they may not be read":                {func(f *Facts) { f.Issuing = release.Unknown[Issuing]("no right") }, Warn, "no right"},
		"cert-manager does not run": {func(f *Facts) {
			f.Issuing = known(refused(func(c *certmanagerv1.Certificate) { c.Status.Conditions = nil }))
		}, Warn, "cert-manager has not looked at it"},
		"it is not Ready, and the issuer is": {func(f *Facts) { f.Issuing = known(refused(func(*certmanagerv1.Certificate) {})) }, Warn,
			"Certificate holdfast-webhook is not Ready: DoesNotExist, no Secret; its Issuer is holdfast-ca"},
		"it was never issued": {func(f *Facts) {
			f.Issuing, f.Certificate = known(refused(func(*certmanagerv1.Certificate) {})), release.Absent[*corev1.Secret]()
		}, Fail, "is not Ready: DoesNotExist"},
		"its attempts failed": {func(f *Facts) {
			f.Issuing = known(refused(func(c *certmanagerv1.Certificate) {
				c.Status.FailedIssuanceAttempts, c.Status.LastFailureTime = new(3), &metav1.Time{Time: now.Add(-time.Hour)}
			}))
		}, Warn, "3 attempts failed, the last 60m ago"},
		"its issuer is not Ready": {func(f *Facts) {
			all := known(refused(func(*certmanagerv1.Certificate) {})).Get()
			all.Issuers[0].Conditions[0].Status, all.Issuers[0].Conditions[0].Reason = cmmeta.ConditionFalse, "ErrGetKeyPair"
			f.Issuing = release.Known(all)
		}, Warn, "its Issuer holdfast-ca is not Ready: ErrGetKeyPair"},
		"its issuer does not exist": {func(f *Facts) {
			f.Issuing = known(refused(func(c *certmanagerv1.Certificate) {
				c.Spec.IssuerRef = cmmeta.IssuerReference{Kind: "ClusterIssuer", Name: "corp"}
			}))
		}, Warn, "its ClusterIssuer corp was not found"},
		"its renewal is late": {func(f *Facts) { f.Issuing = known(issued(now.Add(-2 * time.Hour))) }, Warn, "should have been renewed 120m ago; its Issuer is holdfast-ca"},
	} {
		t.Run(name, func(t *testing.T) {
			f := wellInstalled(t)
			tc.change(f)
			d := &Diagnosis{}
			issuing(d, f, now)
			if len(d.Checks) != 1 || d.Checks[0].Level != tc.level || !strings.Contains(d.Checks[0].Found, tc.found) {
				t.Errorf("%+v, want %s %q", d.Checks, tc.level, tc.found)
			}
		})
	}
}

func known(certificates ...certmanagerv1.Certificate) release.Fact[Issuing] {
	return release.Known(Issuing{Certificates: certificates, Issuers: []Issuer{{Kind: "Issuer", Name: "holdfast-ca",
		Conditions: []certmanagerv1.IssuerCondition{{Type: certmanagerv1.IssuerConditionReady, Status: cmmeta.ConditionTrue}}}}})
}
