// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/holdfast-dev/holdfast/hack/dev/internal/bench/page"
	"github.com/holdfast-dev/holdfast/internal/testing/process"
)

// DescribeMachine describes where the rows are measured.
func DescribeMachine(ctx context.Context, root string) (page.Machine, error) {
	m := page.Machine{Cores: runtime.NumCPU(), Processor: "unknown", Go: runtime.Version()}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return m, err
	}
	m.Kernel = strings.TrimSpace(string(kernel))
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(info)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			m.Processor = strings.TrimSpace(value)
			break
		}
	}
	kubernetes, err := process.Output(ctx, root, filepath.Join(root, "bin", "kube", "kube-apiserver"), "--version")
	if err != nil {
		return m, err
	}
	etcd, err := process.Output(ctx, root, filepath.Join(root, "bin", "kube", "etcd"), "--version")
	m.Kubernetes = strings.TrimPrefix(kubernetes, "Kubernetes ")
	first, _, _ := strings.Cut(etcd, "\n")
	m.Etcd = strings.TrimPrefix(first, "etcd Version: ")
	return m, err
}

// Version is that of a commit, marked where the product has changes that no commit has.
func Version(ctx context.Context, root, commit string) (string, error) {
	version, err := process.Output(ctx, root, "git", "rev-parse", "--short", commit)
	if err != nil || commit != "HEAD" {
		return version, err
	}
	changes, err := process.Output(ctx, root, "git", "status", "--porcelain", "--untracked-files=no", "--", ":!docs", ":!hack")
	if changes != "" {
		version += "-dirty"
	}
	return version, err
}

// Checkout makes a worktree of a commit with its commands built, and returns its folder. One that is there already is used again.
func Checkout(ctx context.Context, root, commit string, progress io.Writer) (dir, version string, err error) {
	if version, err = Version(ctx, root, commit+"^{commit}"); err != nil {
		return "", "", err
	}
	dir = filepath.Join(root, "bin", "bench", "trees", version)
	if _, err := os.Stat(dir); err != nil {
		if _, err := process.Output(ctx, root, "git", "worktree", "add", "--detach", dir, version); err != nil {
			return "", "", err
		}
	}
	fmt.Fprintf(progress, "building the commands of %s\n", version)
	if _, err := process.Output(ctx, dir, "make", "build"); err != nil {
		return "", "", err
	}
	if err := os.Symlink(filepath.Join(root, "bin", "kube"), filepath.Join(dir, "bin", "kube")); err != nil && !errors.Is(err, os.ErrExist) {
		return "", "", err
	}
	return dir, version, nil
}
