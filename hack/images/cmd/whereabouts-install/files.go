// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	folder         = "whereabouts.d"
	kubeconfigName = "whereabouts.kubeconfig"
)

// installation is what is written to a node, and with what.
type installation struct {
	confDir     string
	nodeConfDir string
	server      string
	tokenFile   string
	caFile      string
	namespace   string
	nodeName    string
	schedule    string
	logFile     string
	logLevel    string
}

// credentials are what a kubeconfig carries.
type credentials struct{ token, authority string }

func (i installation) validate() error {
	var missing []error
	for what, value := range map[string]string{
		"the node's name (NODENAME)":                                      i.nodeName,
		"the namespace of the pools (WHEREABOUTS_NAMESPACE)":              i.namespace,
		"the API server (KUBERNETES_SERVICE_HOST and _PORT, or --server)": i.server,
	} {
		if value == "" {
			missing = append(missing, fmt.Errorf("%s is not set", what))
		}
	}
	return errors.Join(missing...)
}

// readCredentials reads both as they are now.
func (i installation) readCredentials() (credentials, error) {
	token, err := os.ReadFile(i.tokenFile)
	if err != nil {
		return credentials{}, fmt.Errorf("reading the token: %w", err)
	}
	authority, err := os.ReadFile(i.caFile)
	if err != nil {
		return credentials{}, fmt.Errorf("reading the API server's authority: %w", err)
	}
	c := credentials{token: strings.TrimSpace(string(token)), authority: string(authority)}
	if c.token == "" || c.authority == "" {
		return credentials{}, fmt.Errorf("%s or %s is empty: expected a token and a certificate", i.tokenFile, i.caFile)
	}
	return c, nil
}

// writeStatic writes what does not change: the plugin's defaults, and the name
// by which it finds the node's slice.
func (i installation) writeStatic() error {
	config := map[string]any{
		"datastore":          "kubernetes",
		"configuration_path": filepath.Join(i.nodeConfDir, folder),
		"kubernetes":         map[string]any{"kubeconfig": filepath.Join(i.nodeConfDir, folder, kubeconfigName)},
	}
	if i.logFile != "" {
		config["log_file"] = i.logFile
	}
	if i.logLevel != "" {
		config["log_level"] = i.logLevel
	}
	if i.schedule != "" {
		config["reconciler_cron_expression"] = i.schedule
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	if err := i.write("whereabouts.conf", text); err != nil {
		return err
	}
	return i.write("nodename", []byte(i.nodeName))
}

func (i installation) writeKubeconfig(c credentials) error {
	text, err := i.kubeconfig(c)
	if err != nil {
		return err
	}
	return i.write(kubeconfigName, text)
}

func (i installation) kubeconfig(c credentials) ([]byte, error) {
	named := func(name, kind string, value any) []any { return []any{map[string]any{"name": name, kind: value}} }
	return yaml.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": named("local", "cluster", map[string]any{
			"server":                     i.server,
			"certificate-authority-data": base64.StdEncoding.EncodeToString([]byte(c.authority)),
		}),
		"users": named("whereabouts", "user", map[string]any{"token": c.token}),
		"contexts": named("whereabouts", "context", map[string]any{
			"cluster": "local", "user": "whereabouts", "namespace": i.namespace,
		}),
		"current-context": "whereabouts",
	})
}

// write replaces a file of whereabouts' folder as a whole: the plugin may read
// it at any moment.
func (i installation) write(name string, text []byte) error {
	target := filepath.Join(i.confDir, folder, name)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("making the folder for %s: %w", name, err)
	}
	if err := replace(target, text, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// copyPlugin replaces the plugin at target; a process may be running the old one.
func copyPlugin(plugin, target string) error {
	content, err := os.ReadFile(plugin)
	if err != nil {
		return err
	}
	return replace(target, content, 0o755)
}

func replace(target string, content []byte, mode os.FileMode) error {
	file, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, writeErr := file.Write(content)
	if err := errors.Join(writeErr, file.Chmod(mode), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), target)
}
