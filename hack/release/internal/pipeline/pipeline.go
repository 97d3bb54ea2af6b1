// SPDX-License-Identifier: Apache-2.0

// Package pipeline makes the files of a release, step by step, out of a tree that
// git stored.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/hack/release/internal/checksums"
	"github.com/holdfast-dev/holdfast/hack/release/internal/manifests"
	"github.com/holdfast-dev/holdfast/hack/release/internal/sbom"
	"github.com/holdfast-dev/holdfast/hack/release/internal/source"
)

// interruptGrace is how long a command may take to end once it is interrupted; then it is killed.
const interruptGrace = 20 * time.Second

// Options describe what is made, and where.
type Options struct {
	// Version is that of the release; source.CheckVersion accepts it.
	Version string
	Source  source.Source
	// Output is the folder that gets the files. It is replaced as a whole, at the end.
	Output string
	// BuildCache is the Go build cache of the released programs; empty for the machine's.
	BuildCache string
	// Progress gets a line before and after every step, and what the commands of a step print.
	Progress io.Writer
}

// run is a release while it is made.
type run struct {
	Options
	// env is that of all commands.
	env []string
	// tree has the exported files, work everything else that is thrown away, and stage what becomes Output.
	tree, work, stage string
	// digests are those of the images, by their names.
	digests map[string]string
	// binaries are what the bill of materials lists.
	binaries []sbom.Binary
}

// Make makes the release. If it fails, Output is as it was.
func Make(ctx context.Context, options Options) error {
	if err := checkOutput(options.Output); err != nil {
		return err
	}
	env, err := environment(ctx, os.Environ(), options.Source.Time)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "holdfast-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.MkdirAll(filepath.Dir(options.Output), 0o755); err != nil {
		return err
	}
	stage, err := os.MkdirTemp(filepath.Dir(options.Output), ".release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	r := &run{Options: options, env: env, tree: filepath.Join(work, "tree"), work: work, stage: stage}
	for _, step := range r.steps() {
		if err := r.do(ctx, step); err != nil {
			return err
		}
	}
	return errors.Join(os.RemoveAll(options.Output), os.Rename(stage, options.Output), os.Chmod(options.Output, 0o755))
}

// checkOutput refuses to replace a folder that no release has made.
func checkOutput(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at the folder for the release: %w", err)
	}
	if _, err := os.Stat(filepath.Join(folder, checksums.Name)); err != nil {
		return fmt.Errorf("the folder %s is not empty and has no %s, so no release has made it: "+
			"expected none, an empty one or that of an earlier release", folder, checksums.Name)
	}
	return nil
}

// step is one part of the work, with a short description.
type step struct {
	what string
	do   func(context.Context) error
}

func (r *run) steps() []step {
	steps := []step{
		{fmt.Sprintf("exporting the tree of commit %s", r.Source.Short()), r.export},
		{"building the manager and the agent", r.buildImagePrograms},
		{"making the images", r.makeImages},
		{"naming the images of " + r.Version + " in the manifests", r.nameImages},
		{"rendering the manifests", r.render},
		{"packing the kustomizations", r.packConfig},
		{"packing the chart", r.packChart},
		{"rendering the chart", r.checkChart},
	}
	steps = append(steps, r.pluginSteps()...)
	return append(steps,
		step{"asking the programs for their version", r.checkVersions},
		step{"describing the plugin for krew", r.describePlugin},
		step{"listing what is in the programs", r.writeBills},
		step{"summing up", func(context.Context) error { return checksums.Write(r.stage) }},
	)
}

// do runs a step and says what hack/step says of it.
func (r *run) do(ctx context.Context, s step) error {
	fmt.Fprintf(r.Progress, "==> %s\n", s.what)
	start := time.Now()
	if err := s.do(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.what, err)
	}
	fmt.Fprintf(r.Progress, "==> %s: %.0f s\n", s.what, time.Since(start).Seconds())
	return ctx.Err()
}

// command prepares a command at the top of the tree; env comes on top of that of all.
func (r *run) command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = r.tree, slices.Concat(r.env, env)
	cmd.Stdout, cmd.Stderr = r.Progress, os.Stderr
	// A build is a tree of processes: in a group of its own all of them end, and none writes into folders that are being removed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = interruptGrace
	return cmd
}

// tool prepares a Go tool that the tree pins below hack/tools.
func (r *run) tool(ctx context.Context, name string, args ...string) *exec.Cmd {
	modfile := filepath.Join(r.tree, "hack/tools", name, "go.mod")
	return r.command(ctx, nil, "go", append([]string{"tool", "-modfile=" + modfile, name}, args...)...)
}

// buildEnv is on top of that of all where released programs are built.
func (r *run) buildEnv(more ...string) []string {
	env := append(slices.Clone(buildSettings), more...)
	if r.BuildCache != "" {
		env = append(env, "GOCACHE="+r.BuildCache)
	}
	return env
}

// export exports the tree, and refuses one with other images before anything is built.
func (r *run) export(ctx context.Context) error {
	if err := r.Source.Export(ctx, r.tree); err != nil {
		return err
	}
	return manifests.Check(filepath.Join(r.tree, "config"), []string{agentImage, managerImage})
}
