// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ours begins the path of each of our modules.
const ours = "github.com/holdfast-dev/holdfast"

// starters are packages of the standard library that start goroutines, or whose users do: what works in others' goroutines takes a context.
var starters = []string{"context", "net/http", "os/exec", "testing/synctest"}

// starting are functions and methods that start a goroutine, or give the context that is wanted by what starts one.
var starting = []string{"Go", "Parallel", "RunParallel", "AddCleanup", "AfterFunc", "Context"}

// listed is a package as `go list -test` lists it; the test variant of a package has its test files among its files.
type listed struct {
	ImportPath, Dir string
	GoFiles, Deps   []string
	Module          *struct{ Path string }
}

// withGoroutines describes which packages of the module in dir are tested beside goroutines: a file of ours starts one, in the package, in its tests
// or in what they are built from. The race detector can find nothing in the others.
func withGoroutines(dir string) (map[string]bool, error) {
	packages, err := listTests(dir)
	if err != nil {
		return nil, err
	}
	starts := map[string]bool{}
	for path, p := range packages {
		if p.Module == nil || !strings.HasPrefix(p.Module.Path, ours) || strings.HasSuffix(path, ".test") {
			continue
		}
		for _, name := range p.GoFiles {
			found, err := startsGoroutine(filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			starts[path] = starts[path] || found
		}
	}
	tested := map[string]bool{}
	for path, p := range packages {
		if name, is := strings.CutSuffix(path, ".test"); is {
			tested[name] = slices.ContainsFunc(p.Deps, func(dependency string) bool { return starts[dependency] })
		}
	}
	return tested, nil
}

// listTests are all packages that the tests of the module in dir are built from, by their paths, and a package "PATH.test" for each binary.
func listTests(dir string) (map[string]listed, error) {
	cmd := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,Deps,Module", "./...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing what the tests of module %s are built from: %w", dir, err)
	}
	packages := map[string]listed{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading what the tests of module %s are built from: %w", dir, err)
		}
		packages[p.ImportPath] = p
	}
}

// startsGoroutine reports whether a file of Go has a go statement, imports one of starters, or names one of starting.
func startsGoroutine(path string) (bool, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return false, err
	}
	found := false
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.ImportSpec:
			imported, err := strconv.Unquote(n.Path.Value)
			found = found || err != nil || slices.Contains(starters, imported)
		case *ast.SelectorExpr:
			found = found || slices.Contains(starting, n.Sel.Name)
		}
		return !found
	})
	return found, nil
}
