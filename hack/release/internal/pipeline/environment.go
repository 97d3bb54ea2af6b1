// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// keptGoSettings describe where modules come from and where caches are; they decide nothing about the bytes that are built.
var keptGoSettings = []string{
	"GOAUTH", "GOCACHE", "GOINSECURE", "GOMODCACHE", "GONOPROXY", "GONOSUMDB", "GOPATH", "GOPRIVATE", "GOPROXY", "GOSUMDB",
	"GOTOOLCHAIN", "GOVCS",
}

// fixedGoSettings are the same for all commands on every machine.
var fixedGoSettings = map[string]string{
	"GOAMD64": "v1",
	"GOARM64": "v8.0",
	"GOENV":   "off",
	"GOFLAGS": "-mod=readonly -buildvcs=false",
	"GOWORK":  "off",
}

// buildSettings are those of the released programs on top. Tools do without, and so come out of the cache that make fills.
var buildSettings = []string{"CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=false -trimpath"}

// foreign are variables of the caller, beside Go's, that would change what the steps do: those of make and of the tree's own makefiles.
var foreign = []string{
	"MAKEFLAGS", "MAKEFILES", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "VERSION", "TAG", "REGISTRY", "ARCHES", "SOURCE_DATE_EPOCH",
}

// environment makes that of all steps out of the caller's: nothing in it that decides about a byte comes from the machine.
func environment(ctx context.Context, caller []string, epoch time.Time) ([]string, error) {
	settings, err := goSettings(ctx, caller)
	if err != nil {
		return nil, err
	}
	maps.Copy(settings, fixedGoSettings)
	settings["SOURCE_DATE_EPOCH"] = strconv.FormatInt(epoch.Unix(), 10)
	var env []string
	for _, variable := range caller {
		name, _, _ := strings.Cut(variable, "=")
		dropped := strings.HasPrefix(name, "GO") || strings.HasPrefix(name, "CGO_") || strings.HasPrefix(name, "HELM_")
		if !dropped && !slices.Contains(foreign, name) {
			env = append(env, variable)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		env = append(env, name+"="+settings[name])
	}
	return env, nil
}

// goSettings are the kept ones, wherever the caller has set them.
func goSettings(ctx context.Context, caller []string) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"env", "-json"}, keptGoSettings...)...)
	cmd.Env, cmd.Stderr = caller, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("asking go for its settings: %w", err)
	}
	settings := map[string]string{}
	if err := json.Unmarshal(out, &settings); err != nil {
		return nil, fmt.Errorf("reading the settings of go: %w", err)
	}
	return settings, nil
}
