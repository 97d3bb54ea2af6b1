// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

// Container is one that was started in a sandbox.
type Container struct {
	ID, Name  string
	SandboxID string
	StartedAt time.Time
	// Exited reports whether its process has ended.
	Exited bool
}

// StartContainer notes that a container's process runs in a sandbox. In one that is dead it ends at once.
func (r *Runtime) StartContainer(sandbox, id, name string) {
	r.change(sandbox, func(s *record) {
		if s.removed {
			return
		}
		r.containers = append(r.containers, &Container{ID: id, Name: name, SandboxID: sandbox, StartedAt: r.clock.Now(), Exited: !s.Alive})
	})
}

// ExitContainer notes that a container's process ended. It does nothing for one that the machine does not have, such as
// one of an earlier boot.
func (r *Runtime) ExitContainer(id string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if i := slices.IndexFunc(r.containers, func(c *Container) bool { return c.ID == id }); i >= 0 {
		r.containers[i].Exited = true
	}
}

func (r *Runtime) removeContainers(sandbox string) {
	r.containers = slices.DeleteFunc(r.containers, func(c *Container) bool { return c.SandboxID == sandbox })
}

// endContainers: no process outlives the sandbox that it runs in.
func (r *Runtime) endContainers(sandbox string) {
	for _, c := range r.containers {
		if c.SandboxID == sandbox {
			c.Exited = true
		}
	}
}

// Table is what the runtime knows at this moment, oldest first: every sandbox that was not removed, dead or alive, also
// while it is made, and their containers.
func (r *Runtime) Table() ([]api.Sandbox, []Container) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var sandboxes []api.Sandbox
	for _, s := range r.records {
		if !s.removed {
			sandboxes = append(sandboxes, s.copy())
		}
	}
	containers := make([]Container, len(r.containers))
	for i, c := range r.containers {
		containers[i] = *c
	}
	return sandboxes, containers
}

func (s *record) copy() api.Sandbox {
	sandbox := s.Sandbox
	sandbox.Addresses = slices.Clone(sandbox.Addresses)
	return sandbox
}
