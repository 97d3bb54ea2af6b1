// SPDX-License-Identifier: Apache-2.0

package nodestore

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"unicode"
)

const (
	// maxSandboxID is longer than any runtime's IDs (64 characters), and short enough for a message.
	maxSandboxID = 256
	// maxInterface is IFNAMSIZ of Linux without its terminating zero.
	maxInterface = 15
)

// containerID is what the CNI specification allows as CNI_CONTAINERID.
var containerID = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_.-]*$`)

func checkSandboxID(id string) error {
	if id == "" {
		return errors.New("the sandbox ID is empty")
	}
	if len(id) > maxSandboxID {
		return fmt.Errorf("the sandbox ID has %d characters, more than %d", len(id), maxSandboxID)
	}
	if !containerID.MatchString(id) {
		return fmt.Errorf("the sandbox ID %q is not one that the CNI specification allows", id)
	}
	return nil
}

// checkInterface holds a name to what libcni and the kernel accept.
func checkInterface(name string) error {
	bad := name == "" || len(name) > maxInterface || name == "." || name == ".."
	for _, c := range name {
		bad = bad || c == '/' || c == ':' || c == unicode.ReplacementChar || unicode.IsSpace(c) || !unicode.IsPrint(c)
	}
	if bad {
		return fmt.Errorf("%q is not the name of an interface", name)
	}
	return nil
}

// parseIP reads an address that is written in the one form that net.IP's String gives it; another form would be another file,
// or another key, to the IPAM.
func parseIP(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%q is not an IP address", text)
	}
	if canonical := ip.Unmap(); ip.Zone() != "" || canonical.String() != text {
		return netip.Addr{}, fmt.Errorf("%q is an IP address, but not written as %s, the only form in which its IPAM finds it", text, canonical.WithZone(""))
	}
	return ip, nil
}
