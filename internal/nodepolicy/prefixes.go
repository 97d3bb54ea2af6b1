// SPDX-License-Identifier: Apache-2.0

package nodepolicy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/holdfast-dev/holdfast/internal/nodeidentity"
)

// Prefixes reads the addresses that the object holds as prefixes, without duplicates. Null, the empty string and a field that the object lacks are
// no address. The error names what could not be read, beside the prefixes that could. A field that an element of a list lacks is an error, because
// the addresses of the other elements are lost with it.
func (c *Compiled) Prefixes(u *unstructured.Unstructured) ([]netip.Prefix, error) {
	r := prefixReader{seen: sets.New[netip.Prefix]()}
	for i, e := range c.addresses {
		r.where = fmt.Sprintf("spec.addresses[%d]", i)
		value, err := e.eval(u.Object)
		switch {
		case errors.Is(err, errNoSuchField):
		case err != nil:
			r.fail("%w", err)
		default:
			r.read(value)
		}
	}
	return r.prefixes, errors.Join(r.errs...)
}

// prefixReader collects prefixes and what could not be read.
type prefixReader struct {
	where    string
	seen     sets.Set[netip.Prefix]
	prefixes []netip.Prefix
	errs     []error
}

func (r *prefixReader) fail(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: "+format, append([]any{r.where}, args...)...))
}

// read takes a list of strings, or of such lists.
func (r *prefixReader) read(value ref.Val) {
	switch v := value.(type) {
	case types.Null:
	case types.String:
		r.fail("it gives string; it has to give list(string)")
	case traits.Lister:
		r.readList(v)
	default:
		r.fail("it gives %s; it has to give list(string)", value.Type().TypeName())
	}
}

func (r *prefixReader) readList(list traits.Lister) {
	for items := list.Iterator(); items.HasNext() == types.True; {
		item := items.Next()
		if text, ok := item.(types.String); ok {
			r.add(string(text))
			continue
		}
		r.read(item)
	}
}

func (r *prefixReader) add(text string) {
	if text == "" {
		return
	}
	prefix, err := parsePrefix(text)
	if err != nil {
		r.fail("%q is neither an address nor a prefix: %w", text, err)
		return
	}
	if !r.seen.Has(prefix) {
		r.seen.Insert(prefix)
		r.prefixes = append(r.prefixes, prefix)
	}
}

// parsePrefix reads an address or a prefix in one canonical form: without host bits, and an IPv4-mapped IPv6 address as IPv4.
func parsePrefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return netip.Prefix{}, err
		}
		if addr.Zone() != "" {
			return netip.Prefix{}, errors.New("an address with a zone means something on one machine only")
		}
		return nodeidentity.Normal(netip.PrefixFrom(addr, addr.BitLen())), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return nodeidentity.Normal(prefix), nil
}
