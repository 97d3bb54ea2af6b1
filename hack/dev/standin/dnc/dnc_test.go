// SPDX-License-Identifier: Apache-2.0

package dnc

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast-dev/holdfast/hack/dev/standin/acn"
)

// bench is a DNC of two prefixes with a fake API server.
type bench struct {
	t         *testing.T
	client    client.Client
	dnc       *DNC
	cleanedUp bool
	refuse    bool // writes of /status
	uids      int
	told      []string
	failed    []error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b.client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(acn.Object()).WithInterceptorFuncs(interceptor.Funcs{
		// The fake API server gives no UIDs.
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			b.uids++
			o.SetUID(types.UID(fmt.Sprintf("uid-%d", b.uids)))
			return c.Create(ctx, o, options...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, o client.Object, options ...client.SubResourceUpdateOption) error {
			if b.refuse {
				return apierrors.NewForbidden(schema.GroupResource{Resource: acn.Resource}, o.GetName(), fmt.Errorf("stale"))
			}
			return c.Status().Update(ctx, o, options...)
		},
	}).Build()
	var err error
	b.dnc, err = New(Options{
		Client: b.client, Range: netip.MustParsePrefix("10.0.0.0/27"), Bits: 28,
		CleanUp: func(string) bool { return b.cleanedUp },
		Tell:    func(format string, args ...any) { b.told = append(b.told, fmt.Sprintf(format, args...)) },
		Failed:  func(_ string, err error) { b.failed = append(b.failed, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) node(name string) {
	b.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "203.0.113.1"}}
	if err := b.client.Create(b.t.Context(), node); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) deleteNode(name string) {
	b.t.Helper()
	if err := b.client.Delete(b.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) config(node string) *unstructured.Unstructured {
	b.t.Helper()
	config, err := acn.Get(b.t.Context(), b.client, node)
	if err != nil {
		b.t.Fatal(err)
	}
	return config
}

// has is what the node's object says: owner and prefixes; empty when there is none.
func (b *bench) has(node string) string {
	b.t.Helper()
	config := b.config(node)
	if config == nil {
		return ""
	}
	prefixes, err := acn.Prefixes(config)
	if err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprint(acn.NodeUID(config), prefixes)
}

func (b *bench) expect(what, node, want string) {
	b.t.Helper()
	if got := b.has(node); got != want {
		b.t.Errorf("%s: the NodeNetworkConfig of %s has %q, want %q", what, node, got, want)
	}
}

func (b *bench) pass() { b.dnc.pass(b.t.Context()) }

func TestANodeGetsAPrefixOnceItJoined(t *testing.T) {
	b := newBench(t)
	b.node("a")
	b.pass()
	b.expect("before it joined", "a", "")
	b.dnc.Join("a")
	b.dnc.Join("a")
	b.dnc.Join("later")
	b.pass()
	b.expect("after it joined", "a", "uid-1[10.0.0.0/28]")
	b.expect("before its Node", "later", "")
	b.pass()
	if len(b.told) != 1 || len(b.failed) != 0 {
		t.Errorf("told %q, failures %v", b.told, b.failed)
	}
	want := []Allocation{{Prefix: netip.MustParsePrefix("10.0.0.0/28"), NodeName: "a", NodeUID: "uid-1", ConfigUID: "uid-2"}}
	if diff := cmp.Diff(want, b.dnc.Allocations(), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("allocations (-want +got):\n%s", diff)
	}
}

func TestDNCWritesTheObjectOfTheNameWhoeverOwnsIt(t *testing.T) {
	b := newBench(t)
	b.node("a")
	b.dnc.Join("a")
	b.pass()
	b.deleteNode("a")
	b.dnc.Program("a")
	b.pass()
	if got := acn.Version(b.config("a")); got != 1 {
		t.Errorf("version %d after a program for a Node that is gone, want 1", got)
	}
	b.node("a") // uid-3
	b.dnc.Program("a")
	b.pass()
	if got := acn.Version(b.config("a")); got != 2 {
		t.Errorf("version %d after a program for a new Node, want 2", got)
	}
	b.expect("under a new Node", "a", "uid-1[10.0.0.0/28]")
}

func TestARefusalIsToldOnceAndTriedAgain(t *testing.T) {
	b := newBench(t)
	b.node("a")
	b.dnc.Join("a")
	b.refuse = true
	b.pass()
	b.pass()
	b.expect("refused", "a", "uid-1[]")
	if len(b.told) != 1 || !strings.Contains(b.told[0], "owned by Node UID uid-1") || len(b.failed) != 2 || !apierrors.IsForbidden(b.failed[0]) {
		t.Errorf("told %q, failures %v", b.told, b.failed)
	}
	b.refuse = false
	b.pass()
	b.expect("let through", "a", "uid-1[10.0.0.0/28]")
}

func TestAPrefixIsInUseUntilTheCleanUpIsThrough(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"a", "b"} {
		b.node(name)
		b.dnc.Join(name)
	}
	b.pass()
	b.expect("two nodes", "b", "uid-2[10.0.0.16/28]")
	b.node("c") // uid-5
	b.dnc.Join("c")
	b.pass()
	b.expect("with no prefix left", "c", "uid-5[]")

	b.deleteNode("a")
	if err := b.client.Delete(t.Context(), b.config("a")); err != nil {
		t.Fatal(err)
	}
	b.node("a") // uid-7
	b.pass()
	b.pass()
	if config := b.config("a"); config == nil || config.GetDeletionTimestamp() == nil {
		t.Fatalf("the object did not wait for the clean-up: %v", config)
	}
	b.expect("while the clean-up goes on", "c", "uid-5[]")

	b.cleanedUp = true
	b.pass()
	b.expect("whoever waits gets what is free", "c", "uid-5[10.0.0.0/28]")
	b.pass()
	b.expect("a new object for the live Node", "a", "uid-7[]")
}

func TestTheLongestUnusedPrefixIsTheNext(t *testing.T) {
	b := newBench(t)
	b.node("a")
	b.dnc.Join("a")
	b.pass()
	b.cleanedUp = true
	b.deleteNode("a")
	if err := b.client.Delete(t.Context(), b.config("a")); err != nil {
		t.Fatal(err)
	}
	b.node("a") // uid-3
	b.pass()
	b.pass()
	b.expect("after its replacement", "a", "uid-3[10.0.0.16/28]")
	b.node("b") // uid-5
	b.dnc.Join("b")
	b.pass()
	b.expect("the next node", "b", "uid-5[10.0.0.0/28]")
}

func TestSplit(t *testing.T) {
	for name, tc := range map[string]struct {
		network string
		bits    int
		want    string // empty for an error
	}{
		"in two":               {"10.0.0.0/27", 28, "[10.0.0.0/28 10.0.0.16/28]"},
		"in one":               {"10.0.0.5/28", 28, "[10.0.0.0/28]"},
		"at the end of IPv4":   {"255.255.255.0/24", 25, "[255.255.255.0/25 255.255.255.128/25]"},
		"a longer range":       {"10.0.0.0/29", 28, ""},
		"too many":             {"10.0.0.0/8", 28, ""},
		"more bits than there": {"10.0.0.0/30", 33, ""},
		"IPv6":                 {"fd00::/64", 65, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := split(netip.MustParsePrefix(tc.network), tc.bits)
			if (err == nil) != (tc.want != "") || err == nil && fmt.Sprint(got) != tc.want {
				t.Errorf("got %v, error %v; want %s", got, err, tc.want)
			}
		})
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a DNC without a range is no error")
	}
}
