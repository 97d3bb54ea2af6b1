// SPDX-License-Identifier: Apache-2.0

package nodepolicy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/controllers/noderesource"
	"github.com/holdfast-dev/holdfast/internal/nodepolicy"
	"github.com/holdfast-dev/holdfast/internal/testing/secondpass"
)

// refuser is an API server that does not take the entries of some policies, as one of another version may not.
type refuser struct {
	// entries are the policies.
	entries []string
	// silent refusals do not say which entry they are about.
	silent bool
}

func (f refuser) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Body == nil || !strings.Contains(r.URL.Path, "validatingwebhookconfigurations/"+noderesource.ConfigurationName) || r.Method == http.MethodDelete {
			return next.RoundTrip(r)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if causes := f.refused(body); len(causes) > 0 {
			return f.answer(r, causes)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		return next.RoundTrip(r)
	})
}

// refused reads the body: JSON of an apply, protobuf of an update.
func (f refuser) refused(body []byte) []metav1.StatusCause {
	var causes []metav1.StatusCause
	decoded, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		panic(fmt.Sprintf("reading what the keeper wrote: %v", err))
	}
	c := decoded.(*configuration)
	for i := range c.Webhooks {
		for _, name := range f.entries {
			if c.Webhooks[i].Name == nodepolicy.EntryName(name) {
				causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid,
					Field: fmt.Sprintf("webhooks[%d].matchConditions[0].expression", i), Message: "this server knows no such function"})
			}
		}
	}
	return causes
}

func (f refuser) answer(r *http.Request, causes []metav1.StatusCause) (*http.Response, error) {
	message := "the configuration is invalid"
	if f.silent {
		message, causes = "something is wrong", nil
	}
	content, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity,
		Reason: metav1.StatusReasonInvalid, Message: message, Details: &metav1.StatusDetails{Causes: causes},
	})
	return &http.Response{StatusCode: http.StatusUnprocessableEntity, Status: "422", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(content)), Request: r}, err
}

var _ = Describe("An entry that the API server does not take", func() {
	DescribeTable("is left out, says why, and disables no other", func(ctx context.Context, f refuser) {
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		seen := &writes{}
		s := inCluster()
		s.transport = func(next http.RoundTripper) http.RoundTripper { return seen.wrap(f.wrap(next)) }
		startManager(ctx, s)
		createPolicy(ctx, policy("bad"))
		expectConditions(ctx, "bad", isRejected, notAccepted)
		Expect(live(ctx)).To(BeNil())

		createPolicy(ctx, policy("alpha"))
		createPolicy(ctx, policy("charlie", resource("plains")))
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
		expectConditions(ctx, "charlie", isAccepted, isEnforced)
		Expect(entries(ctx)).To(HaveExactElements("alpha", "charlie"))
		message := expectConditions(ctx, "bad", isRejected, notAccepted)
		if f.silent {
			Expect(message).To(ContainSubstring("something is wrong"))
		} else {
			Expect(message).To(HaveSuffix("matchConditions[0].expression: this server knows no such function"))
		}

		// It is not tried over and over.
		before := seen.quiet()
		Consistently(seen.seen).Should(HaveLen(before))

		// Another generation is.
		tried := len(seen.of("validatingwebhookconfigurations"))
		changePolicy(ctx, "bad", func(s *v1alpha1.NodeResourcePolicySpec) { s.TimeoutSeconds = 1 })
		expectConditions(ctx, "bad", isRejected, notAccepted)
		Expect(seen.of("validatingwebhookconfigurations")).NotTo(HaveLen(tried))
		Expect(entries(ctx)).To(HaveExactElements("alpha", "charlie"))
	},
		Entry("where the answer names it", refuser{entries: []string{"bad"}}, NodeTimeout(specTimeout)),
		Entry("where it is found by trying", refuser{entries: []string{"bad"}, silent: true}, NodeTimeout(specTimeout)),
	)

	It("which was taken before goes, and the others stay", func(ctx context.Context) {
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		stop := startManager(ctx, inCluster())
		createPolicy(ctx, policy("alpha"))
		createPolicy(ctx, policy("bad", resource("plains")))
		expectConditions(ctx, "bad", isAccepted, isEnforced)
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
		stop()
		s := inCluster()
		s.transport = refuser{entries: []string{"bad"}}.wrap
		startManager(ctx, s)
		changePolicy(ctx, "bad", func(s *v1alpha1.NodeResourcePolicySpec) { s.TimeoutSeconds = 1 })
		expectConditions(ctx, "bad", isRejected, notAccepted)
		eventuallyEntries(ctx, "alpha")
	}, NodeTimeout(specTimeout))
})

var _ = Describe("A configuration that the keeper may not write", func() {
	It("keeps the entries that are there, and the policies say why", func(ctx context.Context) {
		Expect(admin.Create(ctx, stampConfiguration(authority()))).To(Succeed())
		startManager(ctx, inCluster())
		createPolicy(ctx, policy("alpha"))
		expectConditions(ctx, "alpha", isAccepted, isEnforced)

		role := &rbacv1.ClusterRole{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: managerAccount}, role)).To(Succeed())
		whole := role.DeepCopy().Rules
		setRules := func(ctx context.Context, rules []rbacv1.PolicyRule) {
			GinkgoHelper()
			content, err := json.Marshal(map[string]any{"rules": rules})
			Expect(err).NotTo(HaveOccurred())
			Expect(admin.Patch(ctx, role.DeepCopy(), client.RawPatch(types.MergePatchType, content))).To(Succeed())
		}
		DeferCleanup(func(ctx context.Context) { setRules(ctx, whole) }, NodeTimeout(specTimeout))
		setRules(ctx, withoutVerb(role.Rules, "validatingwebhookconfigurations", "update"))
		createPolicy(ctx, policy("bravo", resource("plains")))
		expectConditions(ctx, "bravo", isAccepted, isRejected)
		Expect(condition(ctx, "bravo", v1alpha1.PolicyEnforced).Message).To(ContainSubstring("cannot update resource"))
		expectConditions(ctx, "alpha", isAccepted, isEnforced)
		Expect(entries(ctx)).To(HaveExactElements("alpha"))

		setRules(ctx, whole)
		Eventually(func() []string { return entries(ctx) }, secondpass.Patience(collectedSoon)).Should(HaveExactElements("alpha", "bravo"))
		expectConditions(ctx, "bravo", isAccepted, isEnforced)
	}, NodeTimeout(collectorSpecTimeout))
})

func withoutVerb(rules []rbacv1.PolicyRule, resource, verb string) []rbacv1.PolicyRule {
	kept := make([]rbacv1.PolicyRule, 0, len(rules))
	for _, rule := range rules {
		if slices.Contains(rule.Resources, resource) {
			rule.Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return v == verb })
		}
		kept = append(kept, rule)
	}
	return kept
}
