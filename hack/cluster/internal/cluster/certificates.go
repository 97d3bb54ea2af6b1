// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/config"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/pki"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
)

const (
	mastersGroup = "system:masters"
	// multusUser is whom Multus speaks as (manifests/multus.yaml).
	multusUser = "holdfast:multus"
)

// makeCertificates makes what is not there yet.
func (c *Cluster) makeCertificates() error {
	authority, err := c.authority()
	if err != nil {
		return err
	}
	host := plan.HostAddress.String()
	for name, subject := range map[string]pki.Subject{
		config.EtcdCert: {Name: config.EtcdCert, Hosts: []string{host}},
		config.APIServerCert: {Name: config.APIServerCert, Hosts: []string{
			host, plan.ServiceAddress.String(),
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		config.KubeletClient:  {Name: config.KubeletClient, Groups: []string{mastersGroup}},
		config.EtcdClient:     {Name: config.EtcdClient},
		config.FrontProxy:     {Name: config.FrontProxy},
		config.ServiceAccount: {Name: config.ServiceAccount},
		config.Admin:          {Name: "kubernetes-admin", Groups: []string{mastersGroup}},
	} {
		if _, err := os.Stat(c.Folder.Certificate(name)); err == nil {
			continue
		}
		pair, err := authority.Sign(subject, time.Now())
		if err != nil {
			return err
		}
		if err := c.writePair(name, pair); err != nil {
			return err
		}
	}
	return c.writeKubeconfigs(authority)
}

func (c *Cluster) writeKubeconfigs(authority *pki.Authority) error {
	for path, subject := range map[string]pki.Subject{
		c.Folder.Kubeconfig(): {Name: "kubernetes-admin", Groups: []string{mastersGroup}},
		c.Folder.Path("kubeconfigs", config.ControllerManager): {Name: "system:" + config.ControllerManager},
		c.Folder.Path("kubeconfigs", config.Scheduler):         {Name: "system:" + config.Scheduler},
	} {
		if _, err := os.Stat(path); err == nil {
			continue
		}
		content, err := kubeconfigOf(authority, subject)
		if err != nil {
			return err
		}
		if err := writeFile(path, content); err != nil {
			return err
		}
	}
	return nil
}

func kubeconfigOf(authority *pki.Authority, s pki.Subject) ([]byte, error) {
	pair, err := authority.Sign(s, time.Now())
	if err != nil {
		return nil, err
	}
	return config.Kubeconfig(plan.APIServerURL(), authority.Certificate, pair.Certificate, pair.Key)
}

// authority loads the certificate authority, or makes it.
func (c *Cluster) authority() (*pki.Authority, error) {
	certificate, err := os.ReadFile(c.Folder.Certificate(config.CA))
	if errors.Is(err, fs.ErrNotExist) {
		authority, err := pki.NewAuthority("holdfast-cluster", time.Now())
		if err != nil {
			return nil, err
		}
		return authority, c.writePair(config.CA, authority.Pair)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	key, err := os.ReadFile(c.Folder.Key(config.CA))
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	return pki.Load(pki.Pair{Certificate: certificate, Key: key})
}

// writePair writes the key first: the certificate says that both are there.
func (c *Cluster) writePair(name string, pair pki.Pair) error {
	if err := writeFile(c.Folder.Key(name), pair.Key); err != nil {
		return err
	}
	return writeFile(c.Folder.Certificate(name), pair.Certificate)
}

// writeFile writes a file that may hold credentials, and its folder.
func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
