// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/holdfast-dev/holdfast/api/config/v1alpha1"
	"github.com/holdfast-dev/holdfast/api/v1alpha1"
)

const (
	// cniPlugins is where Debian's containernetworking-plugins are.
	cniPlugins = "/usr/lib/cni"
	// leakedAfter is the sandboxCreationMax of the specs about leaks.
	leakedAfter = stable
	// readEvery is how often the specs' agents read the stores.
	readEvery = 200 * time.Millisecond
)

// secondNetwork is a network of which containerd knows nothing, as a meta plugin adds one: its addresses are recorded by the real
// host-local under the ID of the sandbox, and its DEL comes or is lost without containerd.
type secondNetwork struct {
	dataDir, name, subnet string
}

func (n *secondNetwork) dir() string { return filepath.Join(n.dataDir, n.name) }

func (n *secondNetwork) file(ip netip.Addr) string { return filepath.Join(n.dir(), ip.String()) }

// call runs host-local as a CNI plugin does.
func (n *secondNetwork) call(ctx context.Context, command, sandbox, ifName string) ([]byte, error) {
	stdin, err := json.Marshal(map[string]any{"cniVersion": "0.4.0", "name": n.name, "type": "macvlan", "ipam": map[string]any{
		"type": "host-local", "dataDir": n.dataDir, "ranges": []any{[]any{map[string]any{"subnet": n.subnet}}}}})
	if err != nil {
		return nil, err
	}
	plugin := exec.CommandContext(ctx, filepath.Join(cniPlugins, "host-local"))
	plugin.Env = []string{"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + sandbox, "CNI_IFNAME=" + ifName, "CNI_NETNS=/proc/self/ns/net", "CNI_PATH=" + cniPlugins}
	plugin.Stdin = bytes.NewReader(stdin)
	out, err := plugin.Output()
	if err != nil {
		return nil, fmt.Errorf("host-local %s of %s for %s: %w: %s", command, ifName, sandbox, err, out)
	}
	return out, nil
}

// add gives the address that host-local gave.
func (n *secondNetwork) add(ctx context.Context, sandbox, ifName string) (netip.Addr, error) {
	out, err := n.call(ctx, "ADD", sandbox, ifName)
	if err != nil {
		return netip.Addr{}, err
	}
	var result struct {
		IPs []struct{ Address netip.Prefix } `json:"ips"`
	}
	if err := json.Unmarshal(out, &result); err != nil {
		return netip.Addr{}, fmt.Errorf("host-local gave %s: %w", out, err)
	}
	if len(result.IPs) != 1 {
		return netip.Addr{}, fmt.Errorf("host-local gave %s: want one address", out)
	}
	return result.IPs[0].Address.Addr(), nil
}

// stores configures what the agent audits.
func (w *world) stores(change func(*configv1alpha1.AgentStores)) {
	w.config.Stores.Interval = &metav1.Duration{Duration: readEvery}
	change(&w.config.Stores)
}

// found is the gauge of a kind of finding; -1 without it.
func (w *world) found(ctx context.Context, store string, kind v1alpha1.Reason) func() float64 {
	return func() float64 {
		return w.metric(ctx, fmt.Sprintf(`holdfast_node_store_findings{kind=%q,store=%q}`, string(kind), store))
	}
}

// passes is how many passes had that result.
func (w *world) passes(ctx context.Context, result string) func() float64 {
	return func() float64 {
		return w.metric(ctx, fmt.Sprintf(`holdfast_node_store_audits_total{result=%q}`, result))
	}
}

// notes are those of the events on the world's Node with that reason.
func (w *world) notes(ctx context.Context, reason v1alpha1.Reason) func() ([]string, error) {
	return func() ([]string, error) {
		var events eventsv1.EventList
		if err := admin.List(ctx, &events, client.InNamespace("default")); err != nil {
			return nil, err
		}
		notes := []string{}
		for i := range events.Items {
			if e := &events.Items[i]; e.Regarding.UID == w.node.UID && e.Reason == string(reason) {
				notes = append(notes, e.Note)
			}
		}
		return notes, nil
	}
}

var _ = Describe("The stores of a node's own IPAMs", func() {
	var w *world
	var network *secondNetwork

	sandbox := func(ctx context.Context) string {
		GinkgoHelper()
		id := engine.runSandbox(ctx, newPod())
		engine.cleanUp(id)
		return id
	}

	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, engine.socket, leakedAfter)
		engine.cleanUp(engine.runSandbox(ctx, w.own()))
		network = &secondNetwork{dataDir: w.file("networks"), name: "second", subnet: "192.0.2.0/27"}
	}, NodeTimeout(specTimeout))

	It("show an address of host-local whose DEL was lost, once its sandbox is gone, and not a moment before", func(ctx context.Context) {
		w.stores(func(s *configv1alpha1.AgentStores) { s.HostLocal.DataDirs = []string{network.dataDir} })
		id := sandbox(ctx)
		ip, err := network.add(ctx, id, "net1")
		Expect(err).NotTo(HaveOccurred())
		Expect(os.ReadFile(network.file(ip))).To(BeEquivalentTo(id+"\r\nnet1"), "what Debian's host-local writes")
		w.startAgent(ctx)
		w.ready(ctx)

		By("alive, for longer than a sandbox may be starting")
		Eventually(ctx, func() float64 { return w.metric(ctx, `holdfast_node_store_entries{store="host-local"}`) }).Should(Equal(1.0))
		Consistently(ctx, w.found(ctx, "host-local", v1alpha1.ReasonAddressLeaked)).WithTimeout(2 * leakedAfter).Should(Equal(0.0))

		By("its process killed: containerd lists it as not ready")
		engine.killProcess(ctx, id)
		Eventually(ctx, w.found(ctx, "host-local", v1alpha1.ReasonAddressOfStoppedSandbox)).Should(Equal(1.0))
		Consistently(ctx, w.found(ctx, "host-local", v1alpha1.ReasonAddressLeaked)).WithTimeout(2 * leakedAfter).Should(Equal(0.0))

		By("removed: containerd ran the DEL of its own network, and no DEL ran for the second")
		engine.remove(ctx, id)
		Eventually(ctx, w.found(ctx, "host-local", v1alpha1.ReasonAddressLeaked)).Should(Equal(1.0))
		Expect(w.found(ctx, "host-local", v1alpha1.ReasonAddressOfStoppedSandbox)()).To(Equal(0.0))
		Eventually(ctx, w.notes(ctx, v1alpha1.ReasonAddressLeaked)).Should(ConsistOf(And(ContainSubstring(ip.String()), ContainSubstring(id), ContainSubstring("net1"))))

		By("reported once, also by an agent that starts again; and only reported")
		w.stopAgent()
		w.startAgent(ctx)
		Eventually(ctx, w.found(ctx, "host-local", v1alpha1.ReasonAddressLeaked)).Should(Equal(1.0))
		Consistently(ctx, w.notes(ctx, v1alpha1.ReasonAddressLeaked)).Should(HaveLen(1))
		Expect(os.ReadFile(network.file(ip))).To(BeEquivalentTo(id + "\r\nnet1"))

		By("the DEL comes late")
		_, err = network.call(ctx, "DEL", id, "net1")
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, w.found(ctx, "host-local", v1alpha1.ReasonAddressLeaked)).Should(Equal(0.0))
	}, SpecTimeout(specTimeout))

	It("report nothing about containerd's own network, while sandboxes are created and removed", func(ctx context.Context) {
		w.stores(func(s *configv1alpha1.AgentStores) {
			s.HostLocal.DataDirs = []string{filepath.Join(engine.dir, "addresses")}
		})
		w.startAgent(ctx)
		w.ready(ctx)
		for range 3 {
			id := sandbox(ctx)
			engine.killProcess(ctx, id)
			engine.remove(ctx, id)
		}
		Consistently(ctx, w.found(ctx, "host-local", v1alpha1.ReasonAddressLeaked)).WithTimeout(2 * leakedAfter).Should(Equal(0.0))
		Expect(w.notes(ctx, v1alpha1.ReasonAddressLeaked)()).To(BeEmpty())
		Expect(w.metric(ctx, `holdfast_node_store_entries{store="host-local"}`)).To(BeNumerically(">", 0), "the agent's own")
	}, SpecTimeout(specTimeout))

	It("show and give back nothing while containerd is stopped", func(ctx context.Context) {
		w.stores(func(s *configv1alpha1.AgentStores) {
			s.HostLocal = configv1alpha1.AgentHostLocal{DataDirs: []string{network.dataDir}, Networks: []string{network.name}, Reclaim: true}
		})
		alive, gone := sandbox(ctx), sandbox(ctx)
		kept, err := network.add(ctx, alive, "net1")
		Expect(err).NotTo(HaveOccurred())
		lost, err := network.add(ctx, gone, "net1")
		Expect(err).NotTo(HaveOccurred())
		w.startAgent(ctx)
		w.ready(ctx)
		Eventually(ctx, w.passes(ctx, "Audited")).Should(BeNumerically(">", 1))
		engine.remove(ctx, gone)
		engine.stop()
		Eventually(ctx, w.passes(ctx, string(v1alpha1.ReasonRuntimeUnreachable))).Should(BeNumerically(">", 1))
		Consistently(ctx, w.found(ctx, "host-local", v1alpha1.ReasonAddressLeaked)).WithTimeout(2 * leakedAfter).Should(Equal(0.0))
		Expect(network.file(kept)).To(BeARegularFile())
		Expect(network.file(lost)).To(BeARegularFile())

		By("started again")
		engine.start(ctx)
		Eventually(ctx, w.notes(ctx, v1alpha1.ReasonAddressReclaimed)).Should(ConsistOf(ContainSubstring(lost.String())))
		Expect(network.file(lost)).NotTo(BeAnExistingFile())
		Consistently(ctx, func() string { return network.file(kept) }).Should(BeARegularFile())
	}, SpecTimeout(specTimeout))

	It("get the addresses of host-local back that sandboxes left behind, while host-local gives them out again", func(ctx context.Context) {
		const leaked, interfaces = 20, 29 // of a /27, whose gateway is host-local's own
		w.stores(func(s *configv1alpha1.AgentStores) {
			s.HostLocal = configv1alpha1.AgentHostLocal{DataDirs: []string{network.dataDir}, Networks: []string{network.name}, Reclaim: true}
		})
		alive, gone := sandbox(ctx), sandbox(ctx)
		for i := range leaked {
			_, err := network.add(ctx, gone, fmt.Sprintf("old%d", i))
			Expect(err).NotTo(HaveOccurred())
		}
		engine.remove(ctx, gone)
		w.startAgent(ctx)

		By("more interfaces of a living sandbox than there are free addresses, all at once")
		given := make([]netip.Addr, interfaces)
		var running sync.WaitGroup
		for worker := range 3 {
			running.Go(func() {
				defer GinkgoRecover()
				for i := worker; i < interfaces; i += 3 {
					Eventually(ctx, func() (err error) {
						given[i], err = network.add(ctx, alive, fmt.Sprintf("net%d", i))
						return err
					}).Should(Succeed())
				}
			})
		}
		running.Wait()
		seen := map[netip.Addr]bool{}
		for i, ip := range given {
			Expect(seen).NotTo(HaveKey(ip), "one address for two interfaces")
			seen[ip] = true
			Expect(os.ReadFile(network.file(ip))).To(BeEquivalentTo(fmt.Sprintf("%s\r\nnet%d", alive, i)))
		}
		Eventually(ctx, func() float64 {
			return w.metric(ctx, `holdfast_node_store_reclaims_total{result="AddressReclaimed"}`)
		}).Should(BeNumerically("==", leaked))
		Eventually(ctx, w.notes(ctx, v1alpha1.ReasonAddressReclaimed)).Should(HaveLen(leaked))
		Eventually(ctx, w.found(ctx, "host-local", v1alpha1.ReasonAddressLeaked)).Should(Equal(0.0))
		Eventually(ctx, func() float64 { return w.metric(ctx, `holdfast_node_store_entries{store="host-local"}`) }).Should(BeNumerically("==", interfaces))
	}, SpecTimeout(specTimeout))

	It("are compared in ipamd's checkpoints too, and what is broken or of another version is reported and left as it is", func(ctx context.Context) {
		alive, gone := sandbox(ctx), sandbox(ctx)
		engine.remove(ctx, gone)
		allocation := func(ip, sandbox string) string {
			return fmt.Sprintf(`{"networkName":"aws-cni","containerID":%q,"ifName":"eth0","ipv4":%q,"allocationTimestamp":1767225600000000000,"metadata":{"k8sPodNamespace":"default","k8sPodName":"web-0","interfacesCount":1}}`, sandbox, ip)
		}
		files := map[string]string{
			w.file("ipam.json"):                            `{"version":"vpc-cni-ipam/1","allocations":[` + allocation("192.0.2.70", alive) + "," + allocation("192.0.2.71", gone) + "]}\n",
			w.file("ipam-nic-1.json"):                      `{"version":"vpc-cni-ipam/2","allocations":[]}`,
			network.file(netip.MustParseAddr("192.0.2.9")): "",
		}
		Expect(os.MkdirAll(network.dir(), 0o755)).To(Succeed())
		for path, content := range files {
			write(path, content)
		}
		w.stores(func(s *configv1alpha1.AgentStores) {
			s.AWS.Checkpoint = w.file("ipam.json")
			s.HostLocal = configv1alpha1.AgentHostLocal{DataDirs: []string{network.dataDir}, Networks: []string{network.name}, Reclaim: true}
		})
		w.startAgent(ctx)
		w.ready(ctx)
		Eventually(ctx, w.notes(ctx, v1alpha1.ReasonAddressLeaked)).Should(ConsistOf(And(ContainSubstring("192.0.2.71"), ContainSubstring(gone), ContainSubstring("default/web-0"))))
		Eventually(ctx, w.notes(ctx, v1alpha1.ReasonStoreVersionUnknown)).Should(ConsistOf(And(ContainSubstring("ipam-nic-1.json"), ContainSubstring("vpc-cni-ipam/2"))))
		Eventually(ctx, w.notes(ctx, v1alpha1.ReasonStoreBroken)).Should(ConsistOf(And(ContainSubstring("192.0.2.9"), ContainSubstring("empty"))))
		for series, want := range map[string]float64{
			`holdfast_node_store_entries{store="aws-ipamd"}`:                                            2,
			`holdfast_node_store_findings{kind="AddressLeaked",store="aws-ipamd"}`:                      1,
			`holdfast_node_store_findings{kind="StoreVersionUnknown",store="aws-ipamd"}`:                1,
			`holdfast_node_store_findings{kind="StoreBroken",store="host-local"}`:                       1,
			`holdfast_node_store_findings{kind="AddressLeaked",store="host-local"}`:                     0,
			`holdfast_node_store_reclaims_total{result="` + string(v1alpha1.ReasonReclaimFailed) + `"}`: -1,
		} {
			Expect(w.metric(ctx, series)).To(Equal(want), series)
		}
		for path, content := range files {
			Expect(os.ReadFile(path)).To(BeEquivalentTo(content), strings.TrimPrefix(path, w.dir))
		}
	}, SpecTimeout(specTimeout))
})
