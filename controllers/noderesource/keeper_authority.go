// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

// keeperCopiedAnnotation is the SHA-256 of the stamping webhook's authority when an entry last had the same. An entry with that
// authority has a copy, and follows the original.
const keeperCopiedAnnotation = "holdfast.dev/stamp-authority-sha256"

// keeperAuthority chooses the caBundle of each entry.
type keeperAuthority struct {
	stored *admissionregistrationv1.ValidatingWebhookConfiguration
	// stamp is the authority of the stamping webhook, which the same server answers.
	stamp []byte
	// follow says that nobody injects authorities: that of the stamping webhook is the truth.
	follow bool
}

// of is the authority for a policy's entry; empty if nobody has given one yet. A copy of the stamping webhook's follows that;
// any other that the entry has is left alone: it is an injector's.
func (a keeperAuthority) of(policy string) []byte {
	if a.follow && len(a.stamp) > 0 {
		return a.stamp
	}
	name := nodepolicy.EntryName(policy)
	if own := keeperFind(a.stored, name); own != nil && len(own.ClientConfig.CABundle) > 0 {
		return a.present(own.ClientConfig.CABundle)
	}
	if a.stored != nil {
		for i := range a.stored.Webhooks {
			entry := &a.stored.Webhooks[i]
			if strings.HasSuffix(entry.Name, nodepolicy.EntryName("")) && len(entry.ClientConfig.CABundle) > 0 {
				return a.present(entry.ClientConfig.CABundle)
			}
		}
	}
	return a.stamp
}

// present is what is to be in the place of an authority that an entry has.
func (a keeperAuthority) present(found []byte) []byte {
	if len(a.stamp) > 0 && a.stored.Annotations[keeperCopiedAnnotation] == keeperHash(found) {
		return a.stamp
	}
	return found
}

// annotate remembers the stamping webhook's authority where an entry has it. What is remembered stays when an injector has
// written another into every entry: to take it off would cost a write, and says nothing.
func (a keeperAuthority) annotate(wanted *admissionregistrationv1.ValidatingWebhookConfiguration) {
	if len(a.stamp) > 0 && slices.ContainsFunc(wanted.Webhooks, func(entry admissionregistrationv1.ValidatingWebhook) bool {
		return bytes.Equal(entry.ClientConfig.CABundle, a.stamp)
	}) {
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, keeperCopiedAnnotation, keeperHash(a.stamp))
	}
}

func keeperHash(authority []byte) string {
	sum := sha256.Sum256(authority)
	return hex.EncodeToString(sum[:])
}

// keeperStampAuthority is the first authority in the configuration of the stamping webhook.
func keeperStampAuthority(c *admissionregistrationv1.MutatingWebhookConfiguration) []byte {
	for i := range c.Webhooks {
		if len(c.Webhooks[i].ClientConfig.CABundle) > 0 {
			return c.Webhooks[i].ClientConfig.CABundle
		}
	}
	return nil
}
