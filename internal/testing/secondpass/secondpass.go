// SPDX-License-Identifier: Apache-2.0

// Package secondpass runs a Ginkgo suite a second time with managers that fail a share of their calls to the API server, or the specs alone that
// kill a manager behind each of its writes:
//
//	FAULT_RATE=0.25 FAULT_SEED=1 go test ./test/integration/...
//	CRASH_POINTS=1 go test ./test/integration/lifecycle
//
// Without either it leaves out the specs of Crashes. A suite takes its configuration from Configuration, wraps the rest.Config of whatever it
// tests (and of nothing else) with Wrap, waits for as long as Patience says, and exempts by Exempt the specs that a failed
// call makes meaningless. The same seed fails the same calls of a spec, as far as concurrency allows; see faults.Randomly.
package secondpass

import (
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/testing/faults"
)

const (
	rateVariable  = "FAULT_RATE"
	seedVariable  = "FAULT_SEED"
	crashVariable = "CRASH_POINTS"

	// exemptPrefix begins the label of a spec that the second pass leaves out.
	exemptPrefix = "without faults: "
	// crashes is the label of a spec that is only run with CRASH_POINTS.
	crashes = "crash points"

	// moreTime is how much longer a spec waits for what is tried again and again.
	moreTime = 4
)

var (
	rate = variable(rateVariable, 0)
	seed = uint64(variable(seedVariable, 1))
	// atCrashPoints: this process runs the specs of Crashes alone.
	atCrashPoints = os.Getenv(crashVariable) != ""
)

func variable(name string, unset float64) float64 {
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

// On says whether this process is the second pass.
func On() bool { return rate > 0 }

// Seed makes other things random in the way in which calls fail; it is 1 unless FAULT_SEED says otherwise.
func Seed() uint64 { return seed }

// Configuration is what RunSpecs takes: the suite's name and Ginkgo's configuration, for the pass that the environment asks for.
func Configuration(name string) (string, types.SuiteConfig, types.ReporterConfig) {
	suite, reporter := ginkgo.GinkgoConfiguration()
	switch {
	case atCrashPoints:
		suite.LabelFilter = "/^" + crashes + "$/"
		return name + ", managers that die behind each of their writes", suite, reporter
	case On():
		suite.LabelFilter = "!/^" + exemptPrefix + "/ && !/^" + crashes + "$/"
		return fmt.Sprintf("%s, %g of the manager's calls failing, seed %d", name, rate, seed), suite, reporter
	}
	suite.LabelFilter = "!/^" + crashes + "$/"
	return name, suite, reporter
}

// Crashes marks specs that play one story again for each write of it, with a manager that dies behind that write. They take as long as all
// others together, and are run by themselves.
func Crashes() ginkgo.Labels { return ginkgo.Label(crashes) }

// Exempt leaves a spec, or a container, out of the second pass; why says what in it a failed call makes meaningless.
func Exempt(why string) ginkgo.Labels { return ginkgo.Label(exemptPrefix + why) }

// Patience is a limit of the first pass, or a longer one in the second.
func Patience(first time.Duration) time.Duration {
	if On() {
		return moreTime * first
	}
	return first
}

// lastRetry is a back-off with which a reconcile of many calls, of which a quarter fail, has its many tries within seconds.
const lastRetry = 100 * time.Millisecond

// LastRetry is what to set a manager's longest back-off to: nothing in the first pass.
func LastRetry() time.Duration {
	if On() {
		return lastRetry
	}
	return 0
}

// Report writes down which calls failed in a spec that failed, and in the end which specs the pass leaves out and why (hack/gotest
// counts them). It is called at the top level of a suite.
func Report() bool {
	if On() {
		ginkgo.ReportAfterEach(printFaults)
	}
	return ginkgo.ReportAfterSuite("exempt specs", func(report ginkgo.Report) {
		var exempt []string
		for i := range report.SpecReports {
			spec := &report.SpecReports[i]
			if spec.LeafNodeType != types.NodeTypeIt {
				continue
			}
			if why, out := leftOut(spec.Labels()); out {
				exempt = append(exempt, fmt.Sprintf("  %s: %s", spec.FullText(), why))
			}
		}
		if len(exempt) > 0 {
			fmt.Printf("\n%d specs exempt from this pass\n%s\n", len(exempt), strings.Join(exempt, "\n"))
		}
	})
}

// leftOut says whether the pass leaves a spec with these labels out, and why.
func leftOut(labels []string) (why string, out bool) {
	switch crash := slices.Contains(labels, crashes); {
	case atCrashPoints:
		return "it kills no manager behind each of its writes", !crash
	case crash:
		return "make test-long runs it by itself", true
	case !On():
		return "", false
	}
	for _, label := range labels {
		if why, ok := strings.CutPrefix(label, exemptPrefix); ok {
			return why, true
		}
	}
	return "", false
}

// clients are those of the present spec, so that the client of a restarted manager meets other faults.
var clients struct {
	sync.Mutex
	spec   string
	faults []*faults.Faults
}

// Wrap makes a share of a client's calls fail in the second pass. It is called within a spec, or before all of them. Calls for which one of the exceptions is true are let through.
func Wrap(config *rest.Config, exceptions ...func(faults.Call) bool) {
	if !On() {
		return
	}
	applies := func(c faults.Call) bool {
		if c.Resource.Resource == "events" {
			return false // client-go's recorders do not repeat an event that was refused, and specs wait for some
		}
		for _, exception := range exceptions {
			if exception(c) {
				return false
			}
		}
		return true
	}
	hash := fnv.New64a()
	fmt.Fprint(hash, nextClient(ginkgo.CurrentSpecReport().FullText()))
	// A Retry-After of less than a second is at once: nobody need wait for client-go.
	failing := &faults.Faults{Choose: faults.Randomly(seed^hash.Sum64(), rate, applies), RetryAfter: time.Millisecond}
	config.Wrap(failing.Wrap)
	clients.Lock()
	defer clients.Unlock()
	clients.faults = append(clients.faults, failing)
}

func nextClient(spec string) string {
	clients.Lock()
	defer clients.Unlock()
	if clients.spec != spec {
		clients.spec, clients.faults = spec, nil
	}
	return fmt.Sprintf("%s#%d", spec, len(clients.faults)+1)
}

// printFaults says what befell the clients of a spec that has failed.
func printFaults(report ginkgo.SpecReport) {
	clients.Lock()
	defer clients.Unlock()
	if !report.Failed() || clients.spec != report.FullText() {
		return
	}
	for i, failing := range clients.faults {
		injected := failing.Injected()
		fmt.Printf("client %d of %s: %d of %d calls failed:\n", i+1, report.FullText(), len(injected), failing.Calls())
		for _, injection := range injected {
			fmt.Println("  " + injection.String())
		}
	}
}

// Leases is an exception for Wrap: leader election answers a failed call by ending the process, and whoever restarts it takes
// longer than a suite should wait.
func Leases(namespace string) func(faults.Call) bool {
	return func(c faults.Call) bool { return c.Resource.Resource == "leases" && c.Namespace == namespace }
}

// Events is an exception for Wrap where a spec looks for an event: nobody writes one again that was lost.
func Events(c faults.Call) bool { return c.Resource.Resource == "events" }

// LiveReads is an exception for Wrap where a spec looks at one answer: that of a webhook to one write, where one that cannot
// read says so, by 503, and the failurePolicy decides; or the report of one sweep, which counts what could not be read. What
// fails is all the rest.
func LiveReads(c faults.Call) bool { return c.Verb == "get" && c.Name != "" }

// LiveLists is LiveReads for a webhook that lists, and asks what a user may do.
func LiveLists(c faults.Call) bool { return LiveReads(c) || c.Verb == "list" || c.Verb == "create" }

// mostTries bounds the starts of what cannot so much as look around.
const mostTries = 50

// Start makes what it is told to, and in the second pass tries again when that fails, as the kubelet restarts a container.
func Start[T any](start func() (T, error)) (T, error) {
	started, err := start()
	for tries := 1; err != nil && On() && tries < mostTries; tries++ {
		started, err = start()
	}
	return started, err
}
