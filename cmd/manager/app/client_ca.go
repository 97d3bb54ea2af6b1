// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// askClients accepts only clients that present a certificate of an authority in the file. The file is read at each handshake, so that a new
// authority needs no restart; while it cannot be read, every client is refused.
func askClients(config *tls.Config, file string) {
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the authority of webhook clients (server.clientCAFile): %w", err)
		}
		authorities := x509.NewCertPool()
		if !authorities.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the authority of webhook clients (server.clientCAFile) %s: expected certificates in PEM", file)
		}
		requiring := base.Clone()
		requiring.ClientAuth, requiring.ClientCAs = tls.RequireAndVerifyClientCert, authorities
		return requiring, nil
	}
}
