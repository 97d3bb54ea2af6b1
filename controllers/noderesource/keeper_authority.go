// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

// keeperAuthority chooses the caBundle of each entry.
type keeperAuthority struct {
	stored *admissionregistrationv1.ValidatingWebhookConfiguration
	// stamp is the authority of the stamping webhook, which the same server answers.
	stamp []byte
	// follow says that no injector writes authorities: that of the stamping webhook counts.
	follow bool
}

// of is the authority for a policy's entry; empty if there is none yet. What an entry has is the injector's, and stays. A new
// entry gets that of another one, or the stamping webhook's, so that it fails open for no moment.
func (a keeperAuthority) of(policy string) []byte {
	if a.follow && len(a.stamp) > 0 {
		return a.stamp
	}
	name := nodepolicy.EntryName(policy)
	if own := keeperFind(a.stored, name); own != nil && len(own.ClientConfig.CABundle) > 0 {
		return own.ClientConfig.CABundle
	}
	if a.stored != nil {
		for i := range a.stored.Webhooks {
			entry := &a.stored.Webhooks[i]
			if strings.HasSuffix(entry.Name, nodepolicy.EntryName("")) && len(entry.ClientConfig.CABundle) > 0 {
				return entry.ClientConfig.CABundle
			}
		}
	}
	return a.stamp
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
