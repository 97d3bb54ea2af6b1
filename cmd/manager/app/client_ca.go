// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// askClients lets only clients in that present a certificate of an authority in the file. The file is read at each handshake, so that a new
// authority needs no restart; while it cannot be read nobody is let in.
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
		asking := base.Clone()
		asking.ClientAuth, asking.ClientCAs = tls.RequireAndVerifyClientCert, authorities
		return asking, nil
	}
}
