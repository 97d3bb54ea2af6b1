// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/hack/cluster/internal/cluster"
	"github.com/holdfast-dev/holdfast/hack/cluster/internal/plan"
)

// clusterFlags describe where a cluster is. Every command has them.
type clusterFlags struct{ root, dir string }

func (f *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.root, "root", "", "`folder` of the repository; default: the one that the working directory is in")
	flags.StringVar(&f.dir, "dir", "", "`folder` for everything that is written; default: bin/cluster of the repository")
}

func (f *clusterFlags) complete() (err error) {
	if f.dir == "" || f.root == "" {
		if f.root == "" {
			f.root, err = findRoot()
		}
		if f.dir == "" {
			f.dir = filepath.Join(f.root, "bin", "cluster")
		} else {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	f.dir, err = filepath.Abs(f.dir)
	return err
}

// path makes a path of the repository absolute.
func (f *clusterFlags) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(f.root, p)
}

func (f *clusterFlags) open(log io.Writer) (*cluster.Cluster, error) {
	return cluster.Open(plan.Folder(f.dir), log)
}

const moduleLine = "module github.com/holdfast-dev/holdfast\n"

// findRoot is the nearest folder upwards with the go.mod of the product.
func findRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), moduleLine) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no repository of Holdfast in %s or above it: call this from there, or give --root", start)
		}
	}
}

// argumentFlags are further flags for components.
type argumentFlags []string

// parse reads COMPONENT:FLAG=VALUE.
func (a argumentFlags) parse() (map[string]map[string]string, error) {
	arguments := map[string]map[string]string{}
	var errs []error
	for _, text := range a {
		component, rest, found1 := strings.Cut(text, ":")
		name, value, found2 := strings.Cut(rest, "=")
		if !found1 || !found2 || component == "" || name == "" {
			errs = append(errs, fmt.Errorf("--arg is %q: expected COMPONENT:FLAG=VALUE, like kube-controller-manager:node-monitor-grace-period=20s", text))
			continue
		}
		if arguments[component] == nil {
			arguments[component] = map[string]string{}
		}
		arguments[component][strings.TrimPrefix(name, "--")] = value
	}
	return arguments, errors.Join(errs...)
}
