// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"fmt"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfig makes a file of an identity with a token. The server is the identity's own where it is empty; another
// one has to forward to that, whose certificate is expected.
func writeKubeconfig(path string, identity *rest.Config, server string) error {
	const name = "cluster"
	cluster := &clientcmdapi.Cluster{Server: identity.Host, CertificateAuthorityData: identity.CAData, CertificateAuthority: identity.CAFile}
	if server != "" {
		target, err := serverURL(identity)
		if err != nil {
			return err
		}
		cluster.Server, cluster.TLSServerName = server, target.Hostname()
	}
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: identity.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
	if err := clientcmd.WriteToFile(config, path); err != nil {
		return fmt.Errorf("kubeconfig of a pod: %w", err)
	}
	return nil
}

// serverURL is where an identity finds the API server.
func serverURL(identity *rest.Config) (*url.URL, error) {
	address, _, err := rest.DefaultServerUrlFor(identity)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	return address, nil
}
