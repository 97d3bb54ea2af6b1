// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/inspect/doctor"
	"github.com/holdfast-dev/holdfast/internal/release"
)

// issuing reads the Certificates and the Issuers of the installation; Absent where the API server serves none.
func (c *Cluster) issuing(ctx context.Context) release.Fact[doctor.Issuing] {
	var found doctor.Issuing
	var unserved bool
	err := each(ctx, c, "certificates.cert-manager.io", func(list *certmanagerv1.CertificateList) {
		found.Certificates = append(found.Certificates, list.Items...)
	}, client.InNamespace(c.Namespace))
	if err = orUnserved(err, &unserved); err == nil && !unserved {
		err = c.issuers(ctx, &found)
	}
	switch {
	case err != nil:
		return release.Unknown[doctor.Issuing](err.Error())
	case unserved:
		return release.Absent[doctor.Issuing]()
	}
	return release.Known(found)
}

func (c *Cluster) issuers(ctx context.Context, found *doctor.Issuing) error {
	err := each(ctx, c, "issuers.cert-manager.io", func(list *certmanagerv1.IssuerList) {
		for i := range list.Items {
			found.Issuers = append(found.Issuers, doctor.Issuer{Kind: certmanagerv1.IssuerKind, Name: list.Items[i].Name, Conditions: list.Items[i].Status.Conditions})
		}
	}, client.InNamespace(c.Namespace))
	if err != nil {
		return err
	}
	for i := range found.Certificates {
		ref := found.Certificates[i].Spec.IssuerRef
		if ref.Kind != certmanagerv1.ClusterIssuerKind {
			continue
		}
		var issuer certmanagerv1.ClusterIssuer
		there, err := c.get(ctx, client.ObjectKey{Name: ref.Name}, &issuer, "clusterissuers.cert-manager.io")
		switch {
		case err != nil:
			return err
		case there:
			found.Issuers = append(found.Issuers, doctor.Issuer{Kind: certmanagerv1.ClusterIssuerKind, Name: ref.Name, Conditions: issuer.Status.Conditions})
		}
	}
	return nil
}
