// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

// webhookAuthority chooses the caBundle of each entry.
type webhookAuthority struct {
	stored *admissionregistrationv1.ValidatingWebhookConfiguration
	// protection is the authority of the protection webhook, which the same server answers.
	protection []byte
	// follow says that no injector writes authorities: that of the protection webhook counts.
	follow bool
}

// isFollowed: every entry has the protection webhook's authority.
func (a webhookAuthority) isFollowed() bool { return a.follow && len(a.protection) > 0 }

// of is the authority for a policy's entry; empty if there is none yet. What an entry has is the injector's, and stays. A new
// entry gets that of another one, or the protection webhook's, so that it fails open for no moment.
func (a webhookAuthority) of(policy string) []byte {
	if a.isFollowed() {
		return a.protection
	}
	name := nodepolicy.EntryName(policy)
	if own := webhookFind(a.stored, name); own != nil && len(own.ClientConfig.CABundle) > 0 {
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
	return a.protection
}

// webhookProtectionAuthority is the first authority in the configuration of the protection webhook.
func webhookProtectionAuthority(c *admissionregistrationv1.MutatingWebhookConfiguration) []byte {
	for i := range c.Webhooks {
		if len(c.Webhooks[i].ClientConfig.CABundle) > 0 {
			return c.Webhooks[i].ClientConfig.CABundle
		}
	}
	return nil
}
