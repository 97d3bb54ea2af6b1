// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func parse(t *testing.T, pair Pair) *x509.Certificate {
	t.Helper()
	if _, err := tls.X509KeyPair(pair.Certificate, pair.Key); err != nil {
		t.Fatalf("certificate and key do not belong together: %v", err)
	}
	block, _ := pem.Decode(pair.Certificate)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func newAuthority(t *testing.T) *Authority {
	t.Helper()
	authority, err := NewAuthority("test", now)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func TestSign(t *testing.T) {
	authority := newAuthority(t)
	roots := x509.NewCertPool()
	roots.AddCert(parse(t, authority.Pair))
	for what, test := range map[string]struct {
		subject Subject
		usages  []x509.ExtKeyUsage
	}{
		"a client": {Subject{Name: "system:node:a", Groups: []string{"system:nodes"}}, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		"a server, which is a client too": {
			Subject{Name: "server", Hosts: []string{"10.0.0.1", "server.example"}},
			[]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		},
	} {
		t.Run(what, func(t *testing.T) {
			pair, err := authority.Sign(test.subject, now)
			if err != nil {
				t.Fatal(err)
			}
			got := parse(t, pair)
			if got.Subject.CommonName != test.subject.Name {
				t.Errorf("name %q, want %q", got.Subject.CommonName, test.subject.Name)
			}
			if diff := cmp.Diff(test.subject.Groups, got.Subject.Organization); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.usages, got.ExtKeyUsage); diff != "" {
				t.Errorf("usages (-want +got):\n%s", diff)
			}
			for _, host := range test.subject.Hosts {
				if err := got.VerifyHostname(host); err != nil {
					t.Error(err)
				}
			}
			if _, err := got.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: test.usages}); err != nil {
				t.Error(err)
			}
			if got.IsCA {
				t.Error("it could sign others")
			}
		})
	}
}

func TestLoadedAuthoritySignsToo(t *testing.T) {
	authority := newAuthority(t)
	loaded, err := Load(authority.Pair)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := loaded.Sign(Subject{Name: "a"}, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := parse(t, pair).CheckSignatureFrom(parse(t, authority.Pair)); err != nil {
		t.Error(err)
	}
}

func TestLoadOfWhatIsNoPair(t *testing.T) {
	authority := newAuthority(t)
	for what, test := range map[string]struct {
		pair Pair
		want string
	}{
		"no certificate":   {Pair{Key: authority.Key}, "certificate of the authority"},
		"no key":           {Pair{Certificate: authority.Certificate}, "key of the authority"},
		"exchanged halves": {Pair{Certificate: authority.Key, Key: authority.Certificate}, "certificate of the authority"},
	} {
		t.Run(what, func(t *testing.T) {
			if _, err := Load(test.pair); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}
