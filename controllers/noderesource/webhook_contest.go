// SPDX-License-Identifier: Apache-2.0

package noderesource

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
)

const (
	// webhookContestFree is how many edits in a row are undone at once.
	webhookContestFree = 3
	// webhookContestFirst and webhookContestLast bound the pause before each further one, which doubles.
	webhookContestFirst, webhookContestLast = time.Second, 5 * time.Minute
	// webhookContestQuiet is the shortest time without an edit by another writer before edits are counted anew. It is
	// twice the pause where that is longer.
	webhookContestQuiet = 2 * time.Minute
)

// webhookContest is what the webhook controller remembers of another writer that undoes what the webhook controller writes. Two that each answer the
// other at once would write as fast as the API server takes it, for ever.
type webhookContest struct {
	// restorations is how often the configuration was put back in a row, and last is when it was last.
	restorations int
	last         time.Time
	// changes say who changed what of a policy's webhook, by the policy's UID, since an edit had to wait.
	changes map[types.UID]string
}

// pause is the time from one restoration to the next.
func (c *webhookContest) pause() time.Duration {
	if c.restorations < webhookContestFree {
		return 0
	}
	pause := webhookContestFirst
	for range c.restorations - webhookContestFree {
		if pause *= 2; pause >= webhookContestLast {
			return webhookContestLast
		}
	}
	return pause
}

// wait is how long an edit has to stay; zero if it may be undone now.
func (c *webhookContest) wait(now time.Time) time.Duration {
	return webhookRemaining(c.last, c.pause(), now)
}

// quiet is how long nobody may edit anything until the contest is over.
func (c *webhookContest) quiet(now time.Time) time.Duration {
	return webhookRemaining(c.last, max(webhookContestQuiet, 2*c.pause()), now)
}

// webhookRemaining never exceeds the period, also where the clock was set back.
func webhookRemaining(since time.Time, period time.Duration, now time.Time) time.Duration {
	return min(max(since.Add(period).Sub(now), 0), period)
}

// endIfQuiet forgets a contest that is over.
func (c *webhookContest) endIfQuiet(now time.Time) {
	if c.restorations > 0 && c.quiet(now) == 0 {
		*c = webhookContest{}
	}
}

// restored counts a restoration.
func (c *webhookContest) restored(now time.Time) {
	c.restorations++
	c.last = now
}

// contested says that an edit had to wait, and that it is not long ago.
func (c *webhookContest) contested() bool { return len(c.changes) > 0 }

// note remembers what was found changed and is left so for now.
func (c *webhookContest) note(pass *webhookPass, r *webhookRestoration) {
	wanted := pass.wanted()
	for _, policy := range r.policies {
		if c.changes == nil {
			c.changes = map[types.UID]string{}
		}
		c.changes[policy.UID] = webhookChange(pass.stored, wanted, nodepolicy.EntryName(policy.Name))
	}
}

// said is the message for a policy whose webhook is contested; empty if it is not. It counts nothing, so that it changes
// only with what it is about.
func (c *webhookContest) said(policy types.UID) string {
	if c == nil || c.changes[policy] == "" {
		return ""
	}
	return fmt.Sprintf("%s in ValidatingWebhookConfiguration %s; it is put back ever more slowly, at most every %s. Until then writes may pass "+
		"unjudged. Keep that writer away from the configuration; to change the webhook, change the policy", c.changes[policy], ConfigurationName, webhookContestLast)
}

// webhookChange says who keeps changing what of an entry.
func webhookChange(stored, wanted *admissionregistrationv1.ValidatingWebhookConfiguration, name string) string {
	was, is := webhookFields(wanted, name), webhookFields(stored, name)
	if is == nil {
		return "another writer keeps removing webhook " + name
	}
	var changed []string
	for field := range was {
		if !apiequality.Semantic.DeepEqual(was[field], is[field]) {
			changed = append(changed, field)
		}
	}
	for field := range is {
		if _, known := was[field]; !known {
			changed = append(changed, field)
		}
	}
	slices.Sort(changed)
	return fmt.Sprintf("%s keeps changing %s of webhook %s", webhookEditors(stored, name, changed), strings.Join(changed, ", "), name)
}

// webhookFields are the fields of an entry as the API has them; nil if there is no such entry.
func webhookFields(c *admissionregistrationv1.ValidatingWebhookConfiguration, name string) map[string]any {
	entry := webhookFind(c, name)
	if entry == nil {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(entry)
	if err != nil {
		return map[string]any{}
	}
	return fields
}

// webhookBare is what the webhooks ask for, without their authority. An entry's failurePolicy depends on that.
func webhookBare(c *admissionregistrationv1.ValidatingWebhookConfiguration) *admissionregistrationv1.ValidatingWebhookConfiguration {
	if c == nil {
		return nil
	}
	bare := c.DeepCopy()
	for i := range bare.Webhooks {
		bare.Webhooks[i].ClientConfig.CABundle, bare.Webhooks[i].FailurePolicy = nil, nil
	}
	return bare
}

// webhookEditedBesideTrust says that another writer edited the webhooks and wrote another authority as well, or deleted them with the
// one that they had.
func webhookEditedBesideTrust(synced, stored, wanted *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	bare := webhookBare(wanted)
	return webhookSameIntent(webhookBare(synced), bare) && !webhookSameIntent(webhookBare(stored), bare) && webhookSameTrust(stored, wanted)
}

// webhookSameTrust says that no entry which is there is to have another authority.
func webhookSameTrust(stored, wanted *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	if stored == nil || wanted == nil {
		return true
	}
	return !slices.ContainsFunc(stored.Webhooks, func(is admissionregistrationv1.ValidatingWebhook) bool {
		entry := webhookFind(wanted, is.Name)
		return entry != nil && !bytes.Equal(entry.ClientConfig.CABundle, is.ClientConfig.CABundle)
	})
}

// webhookEditors are the other field managers that own one of these fields of an entry, in words. No manager owns what was removed.
func webhookEditors(stored *admissionregistrationv1.ValidatingWebhookConfiguration, name string, fields []string) string {
	names := sets.New[string]()
	entry := fieldpath.KeyByFields("name", name)
	for i := range stored.ManagedFields {
		managed, owned := &stored.ManagedFields[i], fieldpath.NewSet()
		if managed.Manager == WebhooksFieldManager || managed.FieldsV1 == nil || owned.FromJSON(bytes.NewReader(managed.FieldsV1.GetRawBytes())) != nil {
			continue
		}
		of := owned.WithPrefix(fieldpath.PathElement{FieldName: new("webhooks")}).WithPrefix(fieldpath.PathElement{Key: entry})
		for _, field := range fields {
			if element := (fieldpath.PathElement{FieldName: &field}); of.Members.Has(element) || !of.WithPrefix(element).Empty() {
				names.Insert(fmt.Sprintf("%q", managed.Manager))
			}
		}
	}
	if names.Len() == 0 {
		return "another writer"
	}
	return "another writer, field manager " + strings.Join(sets.List(names), " or ") + ","
}
