// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testing/faults"
)

// The whole suite runs a second time with managers that fail a share of their calls:
//
//	FAULT_RATE=0.25 FAULT_SEED=1 go test ./test/integration/lifecycle
//
// A spec fails the same calls for the same seed, as far as concurrency allows; see faults.Randomly.
const (
	faultRateVariable = "FAULT_RATE"
	faultSeedVariable = "FAULT_SEED"
)

var (
	// faultRate is the share of a manager's calls that fail; zero in the first pass.
	faultRate = faultVariable(faultRateVariable, 0)
	faultSeed = uint64(faultVariable(faultSeedVariable, 1))
)

func faultVariable(name string, unset float64) float64 {
	text := os.Getenv(name)
	if text == "" {
		return unset
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("%s is %q: expected a number", name, text))
	}
	return value
}

// inFaultyPass is Describe in the pass with failing calls, and nothing in the first one.
func inFaultyPass(text string, args ...any) bool {
	return faultRate > 0 && Describe(text, args...)
}

// describeCluster writes down, for the report of a failed spec, what is left of it.
func describeCluster(ctx context.Context) {
	for _, list := range []client.ObjectList{&corev1.PodList{}, &v1alpha1.IPAllocationList{}, &wbv1alpha1.IPPoolList{}} {
		if err := admin.List(ctx, list); err != nil {
			GinkgoWriter.Println(err)
			continue
		}
		text, err := json.Marshal(list)
		GinkgoWriter.Printf("%T: %s %v\n", list, text, err)
	}
}

// failingSoon is what soon is for a manager whose calls fail.
const failingSoon = 4 * time.Minute

// exemptPrefix begins the label of a spec that the second pass leaves out.
const exemptPrefix = "without faults: "

// withoutFaults exempts a spec from the second pass; why says what in it a failed call makes meaningless.
func withoutFaults(why string) Labels { return Label(exemptPrefix + why) }

// passOf is the suite's name and configuration for the pass that the environment asks for.
func passOf(config types.SuiteConfig) (string, types.SuiteConfig) {
	if faultRate == 0 {
		return "Lifecycle", config
	}
	config.LabelFilter = "!/^" + exemptPrefix + "/"
	return fmt.Sprintf("Lifecycle, %g of the manager's calls failing, seed %d", faultRate, faultSeed), config
}

// The count of specs that a pass leaves out on purpose stands in its output, with the reasons (hack/gotest reads it).
var _ = ReportAfterSuite("exempt specs", func(report Report) {
	if faultRate == 0 {
		return
	}
	var exempt []string
	for i := range report.SpecReports {
		for _, label := range report.SpecReports[i].Labels() {
			if strings.HasPrefix(label, exemptPrefix) {
				exempt = append(exempt, fmt.Sprintf("  %s: %s", report.SpecReports[i].FullText(), strings.TrimPrefix(label, exemptPrefix)))
			}
		}
	}
	fmt.Printf("\n%d specs exempt from failing calls\n%s\n", len(exempt), strings.Join(exempt, "\n"))
})

// managersOfSpec counts the managers that a spec has started, so that a restarted one meets other faults.
var managersOfSpec int

// failingCalls are the faults of the next manager; nil in the first pass.
func failingCalls() *faults.Faults {
	if faultRate == 0 {
		return nil
	}
	managersOfSpec++
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s#%d", CurrentSpecReport().FullText(), managersOfSpec)
	// A Retry-After of less than a second is at once: the second pass need not wait for client-go.
	failing := &faults.Faults{Choose: faults.Randomly(faultSeed^hash.Sum64(), faultRate, mayFail), RetryAfter: time.Millisecond}
	DeferCleanup(func(ctx context.Context) {
		managersOfSpec = 0
		if CurrentSpecReport().Failed() {
			describeCluster(ctx)
			GinkgoWriter.Printf("%d of %d calls failed:\n", len(failing.Injected()), failing.Calls())
			for _, injection := range failing.Injected() {
				GinkgoWriter.Println("  " + injection.String())
			}
		}
	})
	return failing
}

// patience is how long a spec waits for what a manager does: longer where it has to try again and again, with back-off.
func patience() time.Duration {
	if faultRate > 0 {
		return failingSoon
	}
	return soon
}

// mayFail: the manager's own Lease is leader election's, whose answer to a failed call is to end the process.
func mayFail(c faults.Call) bool {
	return c.Resource.Resource != "leases" || c.Namespace != managerNamespace
}

// mostRestarts bounds the starts of a manager that cannot so much as look around.
const mostRestarts = 50
