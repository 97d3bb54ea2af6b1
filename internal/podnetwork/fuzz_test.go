// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
)

// FuzzAttachments: every element that is listed is a network or an error, and there are no more of both than the bounds allow.
func FuzzAttachments(f *testing.F) {
	f.Fuzz(func(t *testing.T, networks, defaultNetwork string) {
		attachments, malformed := Attachments(map[string]string{
			NetworksAnnotation: networks, DefaultNetworkAnnotation: defaultNetwork,
		}, "apps", "")
		defaults := 0
		for _, a := range attachments {
			if a.Namespace == "" || a.Name == "" || strings.ContainsAny(a.Namespace+a.Name, "/ %?#\n\x00") {
				t.Errorf("%+v names no object", a)
			}
			if a.Default {
				defaults++
			}
		}
		if defaults != 1 && len(malformed) == 0 {
			t.Errorf("%q names %d default networks, and there is no error", defaultNetwork, defaults)
		}
		if n := len(attachments) + len(malformed); n > 2*MaxElements+2 {
			t.Errorf("%d networks and errors", n)
		}
		checkBriefErrors(t, malformed)
		var listed []nadv1.NetworkSelectionElement
		if json.Unmarshal([]byte(networks), &listed) == nil && len(attachments)-defaults < len(listed) && len(malformed) == 0 {
			t.Errorf("of %d networks %d were read, and there is no error", len(listed), len(attachments)-defaults)
		}
	})
}

// checkBriefErrors: tenants write what an error is about, so it must not repeat all of it.
func checkBriefErrors(t *testing.T, errs []error) {
	t.Helper()
	for _, err := range errs {
		if err == nil || err.Error() == "" || len(err.Error()) > 1<<10 {
			t.Errorf("an error with no text, or with too much: %.100v", err)
		}
	}
}

// FuzzIPAMsOf: an IPAM that the plugins would read out of a configuration is among those that are found, or there is an error.
func FuzzIPAMsOf(f *testing.F) {
	type plugin struct {
		Type string
		IPAM struct{ Type string }
	}
	f.Fuzz(func(t *testing.T, config string) {
		ipams, err := IPAMsOf(config)
		if err != nil {
			if len(ipams) > 0 {
				t.Errorf("IPAMs %v next to the error %v: a caller may act on them", ipams, err)
			}
			checkBriefErrors(t, []error{err})
			return
		}
		if len(ipams) == 0 || len(ipams) > MaxIPAMs {
			t.Errorf("%d IPAMs, expected 1 to %d", len(ipams), MaxIPAMs)
		}
		found := map[IPAM]bool{}
		for _, ipam := range ipams {
			found[ipam] = true
		}
		var read struct {
			plugin
			Plugins []plugin
		}
		// What encoding/json cannot read, no plugin of the field can: they use it.
		if json.Unmarshal([]byte(config), &read) != nil {
			return
		}
		for _, p := range append(read.Plugins, read.plugin) {
			if p.Type != "" && !found[IPAM{Plugin: p.Type, Type: p.IPAM.Type}] {
				t.Errorf("plugin %q asks IPAM %q, which is not among %v", p.Type, p.IPAM.Type, ipams)
			}
		}
	})
}

// FuzzStatusAddresses: every address that is listed is read or is an error, and each can be compared.
func FuzzStatusAddresses(f *testing.F) {
	f.Fuzz(func(t *testing.T, value string) {
		addresses, err := StatusAddresses(map[string]string{StatusAnnotation: value})
		for _, a := range addresses {
			if !a.IP.IsValid() || a.IP.Is4In6() || a.IP.Zone() != "" {
				t.Errorf("%+v: not an address that can be compared", a)
			}
		}
		if len(addresses) > MaxStatusAddresses {
			t.Errorf("%d addresses", len(addresses))
		}
		listed := 0
		var read []nadv1.NetworkStatus
		if readErr := json.Unmarshal([]byte(value), &read); readErr == nil {
			for i := range read {
				listed += len(read[i].IPs)
			}
		} else if value != "" && err == nil {
			t.Errorf("%q cannot be read (%v), and there is no error", value, readErr)
		}
		if err == nil && len(addresses) != listed {
			t.Errorf("of %d addresses %d were read, and there is no error", listed, len(addresses))
		}
	})
}

// FuzzBounded: what a cache keeps of a pod's annotations has a bound and means the same.
func FuzzBounded(f *testing.F) {
	f.Fuzz(func(t *testing.T, networks, defaultNetwork, status string, repeat uint8) {
		annotations := map[string]string{NetworksAnnotation: networks, DefaultNetworkAnnotation: defaultNetwork, StatusAnnotation: enlarged(status, repeat)}
		bounded := Bounded(annotations)
		kept := 0
		for _, value := range bounded {
			kept += len(value)
		}
		if kept > 2*MaxNetworksBytes+MaxStatusBytes/2 {
			t.Errorf("%d bytes are kept", kept)
		}
		if tooLarge(annotations) {
			return
		}
		checkSameMeaning(t, annotations, bounded)
		checkSameMeaning(t, bounded, Bounded(bounded))
	})
}

// enlarged repeats the elements of a list, so that what is kept of a large status is reached by small inputs.
func enlarged(status string, times uint8) string {
	var elements []json.RawMessage
	if err := json.Unmarshal([]byte(status), &elements); err != nil || len(elements) == 0 {
		return status
	}
	all := elements
	for range times {
		all = append(all, elements...)
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(errors.Join(errors.New("a list that was read cannot be written"), err))
	}
	return string(text)
}
