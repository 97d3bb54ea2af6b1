// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The budgets are counts: what a tenant can have parsed, independent of the speed of the machine.
func TestAnAnnotationBeyondItsBoundsIsMalformedBeforeItIsParsed(t *testing.T) {
	largest := strings.Repeat("a,", MaxElements-1) + "a"
	padded := func(size int) string { return `[{"name":"a"}` + strings.Repeat(" ", size-len(`[{"name":"a"}]`)) + "]" }
	cases := map[string]struct {
		value    string
		networks int
		err      string
	}{
		"as many elements as there may be":            {value: largest, networks: MaxElements},
		"one element more":                            {value: largest + ",a", err: "it names 65 networks, expected at most 64"},
		"one element more, in JSON":                   {value: "[" + strings.Repeat(`{"name":"a"},`, MaxElements) + `{"name":"a"}]`, err: "it names 65 networks"},
		"as many bytes as there may be":               {value: padded(MaxNetworksBytes), networks: 1},
		"one byte more":                               {value: padded(MaxNetworksBytes + 1), err: "it has 16385 bytes, expected at most 16384"},
		"what the API server lets through, 1.37 MiB":  {value: strings.Repeat("a,", 1437000/2), err: "bytes, expected at most"},
		"thousands of elements within the bytes":      {value: strings.Repeat("a,", 8000) + "a", err: "it names 8001 networks"},
		"thousands of JSON elements within the bytes": {value: "[" + strings.Repeat("{},", 5000) + "{}]", err: "it names 5001 networks"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			attachments, malformed := Attachments(map[string]string{NetworksAnnotation: tc.value}, "apps", "")
			if len(attachments) != tc.networks {
				t.Errorf("got %d networks, want %d", len(attachments), tc.networks)
			}
			parts := []string{tc.err}
			if tc.err == "" {
				parts = nil
			}
			checkErrors(t, malformed, parts)
			for _, err := range malformed {
				if len(err.Error()) > 400 {
					t.Errorf("the error has %d bytes: it repeats what it refuses", len(err.Error()))
				}
			}
		})
	}
}

func TestNoRegularExpressionIsCompiledForAnElement(t *testing.T) {
	value := strings.Repeat("nets/blue@eth1,", MaxElements-1) + "a"
	perElement := testing.AllocsPerRun(10, func() { _, _ = commaElements(value) }) / MaxElements
	if perElement > 1 { // the list itself grows now and then; a compiled expression is 30 and more
		t.Errorf("%.1f allocations for an element, want less than one", perElement)
	}
}

func TestAConfigurationBeyondItsBoundsIsNotRead(t *testing.T) {
	ipams := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"type":"p","ipam":{"type":"t%d"}}`, i)
		}
		return `{"plugins":[` + b.String()[1:] + `]}`
	}
	padded := func(size int) string {
		return `{"type":"a","x":"` + strings.Repeat("x", size-len(`{"type":"a","x":""}`)) + `"}`
	}
	for name, tc := range map[string]struct {
		config string
		ipams  int
		err    string
	}{
		"as many IPAMs as there may be": {config: ipams(MaxIPAMs), ipams: MaxIPAMs},
		"one IPAM more":                 {config: ipams(MaxIPAMs + 1), err: "names more than 64 IPAMs"},
		"as large as it may be":         {config: padded(MaxConfigBytes), ipams: 1},
		"one byte more":                 {config: padded(MaxConfigBytes + 1), err: ErrTooLarge.Error()},
		"40,000 IPAMs":                  {config: ipams(40000), err: ErrTooLarge.Error()},
		"what a cache keeps of one":     {config: TooLarge, err: ErrTooLarge.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := IPAMsOf(tc.config)
			if len(got) != tc.ipams {
				t.Errorf("got %d IPAMs, want %d", len(got), tc.ipams)
			}
			checkError(t, err, tc.err)
		})
	}
	if _, err := IPAMsOf(ipams(40000)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

func TestAStatusBeyondItsBoundsShowsNothing(t *testing.T) {
	status := func(addresses int) string {
		return `[{"name":"n","ips":["10.0.0.1"` + strings.Repeat(`,"10.0.0.1"`, addresses-1) + `]}]`
	}
	for name, tc := range map[string]struct {
		value string
		shown int
		err   string
	}{
		"as many addresses as there may be": {value: status(MaxStatusAddresses), shown: MaxStatusAddresses},
		"one address more":                  {value: status(MaxStatusAddresses + 1), err: "has 257 networks and addresses, expected at most 256"},
		"networks without an address":       {value: "[" + strings.Repeat("{},", MaxStatusAddresses) + "{}]", err: "has 257 networks and addresses"},
		"one byte too many":                 {value: "[" + strings.Repeat(" ", MaxStatusBytes-1) + "]", err: "has 65537 bytes, expected at most 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := StatusAddresses(map[string]string{StatusAnnotation: tc.value})
			if len(got) != tc.shown {
				t.Errorf("got %d addresses, want %d", len(got), tc.shown)
			}
			checkError(t, err, tc.err)
		})
	}
}

// What a tenant can make a cache keep of one pod is bounded, and means the same.
func TestABoundedCopyMeansTheSame(t *testing.T) {
	var multus strings.Builder
	for i := range 40 {
		fmt.Fprintf(&multus, `{"name":"apps/blue","interface":"net%d","ips":["192.168.2.%d","fd00::%d"],"mac":"aa:bb:cc:dd:ee:ff","mtu":1500,"dns":{},"default":%t},`, i, i, i+1, i == 0)
	}
	status := "[" + strings.TrimSuffix(multus.String(), ",") + "]"
	for name, annotations := range map[string]map[string]string{
		"no annotations":                        nil,
		"an ordinary pod":                       {NetworksAnnotation: "blue", StatusAnnotation: `[{"name":"apps/blue","interface":"net1","ips":["10.0.0.1"]}]`},
		"a status of 40 interfaces":             {NetworksAnnotation: "blue", StatusAnnotation: status},
		"a status that cannot be read":          {StatusAnnotation: strings.Repeat("x", smallStatus+1)},
		"a status with one bad address":         {StatusAnnotation: strings.Replace(status, `"192.168.2.0"`, `"bad"`, 1)},
		"annotations of 256 KiB":                {NetworksAnnotation: strings.Repeat("a,", 128<<10), StatusAnnotation: strings.Repeat("x", 256<<10), DefaultNetworkAnnotation: strings.Repeat("a", 256<<10)},
		"a name of 60 KiB in a readable status": {StatusAnnotation: `[{"name":"` + strings.Repeat("n", 60<<10) + `","ips":["10.0.0.1"]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			bounded := Bounded(annotations)
			kept := 0
			for _, value := range bounded {
				kept += len(value)
			}
			if kept > 2*MaxNetworksBytes+MaxStatusBytes/2 {
				t.Errorf("%d bytes are kept", kept)
			}
			if !tooLarge(annotations) {
				checkSameMeaning(t, annotations, bounded)
			}
		})
	}
}

func checkSameMeaning(t *testing.T, annotations, bounded map[string]string) {
	t.Helper()
	was, wasMalformed := Attachments(annotations, "apps", "")
	is, isMalformed := Attachments(bounded, "apps", "")
	if diff := cmp.Diff(was, is); diff != "" || len(wasMalformed) != len(isMalformed) {
		t.Errorf("other networks (-object +copy), and %d errors for %d:\n%s", len(isMalformed), len(wasMalformed), diff)
	}
	wasShown, wasErr := StatusAddresses(annotations)
	isShown, isErr := StatusAddresses(bounded)
	if diff := cmp.Diff(wasShown, isShown, cmpopts.EquateComparable(netip.Addr{})); (wasErr != nil) != (isErr != nil) || isErr == nil && diff != "" {
		t.Errorf("shows %v, %v, want %v, %v", isShown, isErr, wasShown, wasErr)
	}
}

// tooLarge: a status that could be read, and not kept.
func tooLarge(annotations map[string]string) bool {
	return len(annotations[StatusAnnotation]) > MaxStatusBytes/2 && len(annotations[StatusAnnotation]) <= MaxStatusBytes
}

// A pod may name the largest definition in every element of the largest annotation, and each pod of a network names the same one.
func TestAConfigurationIsParsedOnce(t *testing.T) {
	for name, config := range map[string]string{
		"the largest": `{"plugins":[{"type":"a"}` + strings.Repeat(`,{"type":"a"}`, MaxConfigBytes/20) + `]}`,
		"malformed":   `{"plugins":[` + strings.Repeat(`{},`, MaxConfigBytes/20) + `]}`,
	} {
		first, firstErr := IPAMsOf(config)
		if again := testing.AllocsPerRun(10, func() {
			if got, err := IPAMsOf(config); !slices.Equal(got, first) || !errors.Is(err, firstErr) {
				t.Errorf("%s: %v, %v, and at first %v, %v", name, got, err, first, firstErr)
			}
		}); again > 1 {
			t.Errorf("%s: %.0f allocations although it was parsed before", name, again)
		}
	}
}
