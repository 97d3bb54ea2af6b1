// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const contextName = "holdfast"

// Kubeconfig renders a configuration of this package (client certificate or
// token) as the content of a kubeconfig file that needs no other file.
func Kubeconfig(config *rest.Config) ([]byte, error) {
	file := clientcmdapi.NewConfig()
	file.Clusters[contextName] = &clientcmdapi.Cluster{
		Server:                   config.Host,
		CertificateAuthorityData: config.CAData,
	}
	file.AuthInfos[contextName] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
		Token:                 config.BearerToken,
	}
	file.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName}
	file.CurrentContext = contextName
	content, err := clientcmd.Write(*file)
	if err != nil {
		return nil, fmt.Errorf("rendering a kubeconfig: %w", err)
	}
	return content, nil
}

func (c *ControlPlane) writeKubeconfig(path string, config *rest.Config) error {
	content, err := Kubeconfig(config)
	if err != nil {
		return err
	}
	return writeSecret(path, content)
}

// writeSecret writes a file that holds credentials.
func writeSecret(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing credentials: %w", err)
	}
	return nil
}
