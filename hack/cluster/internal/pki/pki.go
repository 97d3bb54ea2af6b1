// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates of a cluster. One certificate authority
// signs all of them, the aggregation layer's included.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// validity of every certificate; a cluster of tests lives for hours.
const validity = 365 * 24 * time.Hour

// Pair is a certificate and its private key, both PEM.
type Pair struct{ Certificate, Key []byte }

// Subject of a certificate. Kubernetes takes Name as the user and Groups as its
// groups. Hosts are DNS names and addresses; a certificate with any also serves.
type Subject struct {
	Name   string
	Groups []string
	Hosts  []string
}

// Authority signs certificates.
type Authority struct {
	Pair
	certificate *x509.Certificate
	key         crypto.Signer
}

// NewAuthority makes a self-signed one.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(Subject{Name: name}, now)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificate authority %s: %w", name, err)
	}
	pair, err := encode(der, key)
	if err != nil {
		return nil, err
	}
	return Load(pair)
}

// Load reads an authority that was made before.
func Load(pair Pair) (*Authority, error) {
	block, _ := pem.Decode(pair.Certificate)
	if block == nil {
		return nil, fmt.Errorf("certificate of the authority: not PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificate of the authority: %w", err)
	}
	keyBlock, _ := pem.Decode(pair.Key)
	if keyBlock == nil {
		return nil, fmt.Errorf("key of the authority: not PEM")
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key of the authority: %w", err)
	}
	return &Authority{Pair: pair, certificate: certificate, key: key}, nil
}

// Sign makes a key and a certificate for it.
func (a *Authority) Sign(s Subject, now time.Time) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template, err := newTemplate(s, now)
	if err != nil {
		return Pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(s.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate of %s: %w", s.Name, err)
	}
	return encode(der, key)
}

func newTemplate(s Subject, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("serial number of %s: %w", s.Name, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.Name, Organization: s.Groups},
		NotBefore:    now.Add(-time.Hour), // clocks of pods are the host's, but tests may turn theirs back
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	for _, host := range s.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	return key, nil
}

func encode(certificate []byte, key *ecdsa.PrivateKey) (Pair, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("private key: %w", err)
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
	}, nil
}
