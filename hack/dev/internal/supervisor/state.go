// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Phase is how far a development cluster is.
type Phase string

// The phases.
const (
	Starting Phase = "Starting"
	Up       Phase = "Up"
	Stopping Phase = "Stopping"
)

// State is what the supervisor writes down of what it started.
type State struct {
	Phase      Phase   `json:"phase"`
	Supervisor Process `json:"supervisor"`
	// Children are in the order of their starts.
	Children []Process `json:"children"`
	// Kubeconfig and Socket are paths.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	Socket     string `json:"socket,omitempty"`
}

func stateFile(dir string) string { return filepath.Join(dir, "state.json") }

// ReadState returns nil when nothing is written down: no cluster was started in
// this folder, or it was stopped.
func ReadState(dir string) (*State, error) {
	content, err := os.ReadFile(stateFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state of the development cluster: %w", err)
	}
	state := &State{}
	if err := json.Unmarshal(content, state); err != nil {
		return nil, fmt.Errorf("state of the development cluster in %s: %w", stateFile(dir), err)
	}
	return state, nil
}

// write replaces the file as a whole, so that a reader never sees half of it.
func (s *State) write(dir string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	fresh := stateFile(dir) + ".new"
	if err := os.WriteFile(fresh, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("state of the development cluster: %w", err)
	}
	return os.Rename(fresh, stateFile(dir))
}

func removeState(dir string) error {
	if err := os.Remove(stateFile(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state of the development cluster: %w", err)
	}
	return nil
}
