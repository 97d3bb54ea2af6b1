// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"

	"github.com/holdfast-dev/holdfast/hack/release/internal/archive"
	"github.com/holdfast-dev/holdfast/hack/release/internal/manifests"
	"github.com/holdfast-dev/holdfast/hack/release/internal/plugin"
	"github.com/holdfast-dev/holdfast/hack/release/internal/publish"
	"github.com/holdfast-dev/holdfast/hack/release/internal/source"
)

const (
	managerImage = manifests.Registry + "/holdfast-manager"
	agentImage   = manifests.Registry + "/holdfast-agent"
	chartFolder  = "charts/holdfast"
)

// nameImages names the images of the release in the kustomizations and in the chart, by tag and digest.
func (r *run) nameImages(ctx context.Context) error {
	r.digests = map[string]string{}
	for _, image := range []string{agentImage, managerImage} {
		var err error
		if r.digests[image], err = publish.Digest(ctx, filepath.Join(r.stage, path.Base(image)+"-"+r.Version+".oci.tar")); err != nil {
			return err
		}
	}
	if err := manifests.Set(filepath.Join(r.tree, "config"), r.Version, r.digests); err != nil {
		return err
	}
	return manifests.SetChart(filepath.Join(r.tree, chartFolder, "Chart.yaml"), r.Version, r.digests)
}

// render writes the installation, and the CRDs alone.
func (r *run) render(ctx context.Context) error {
	images, err := r.renderTo(ctx, "config/default", "holdfast-"+r.Version+".yaml")
	if err != nil {
		return err
	}
	for _, image := range []string{agentImage, managerImage} {
		if !slices.Contains(images, image) {
			return fmt.Errorf("config/default has the images %v: expected %s", images, image)
		}
	}
	_, err = r.renderTo(ctx, "config/crd", "holdfast-crds-"+r.Version+".yaml")
	return err
}

// renderTo renders a kustomization into a file of the release and gives the images in it.
func (r *run) renderTo(ctx context.Context, kustomization, name string) ([]string, error) {
	var rendered bytes.Buffer
	cmd := r.tool(ctx, "kustomize", "build", kustomization)
	cmd.Stdout = &rendered
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("rendering %s: %w", kustomization, err)
	}
	images, err := manifests.CheckImages(rendered.Bytes(), r.Version, r.digests)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kustomization, err)
	}
	header := fmt.Sprintf("# SPDX-License-Identifier: Apache-2.0\n# Holdfast %s, rendered from %s\n", r.Version, kustomization)
	return images, os.WriteFile(filepath.Join(r.stage, name), append([]byte(header), rendered.Bytes()...), 0o644)
}

// packConfig packs the kustomizations, for installations with components.
func (r *run) packConfig(context.Context) error {
	top := "holdfast-" + r.Version
	files, err := archive.Folder(filepath.Join(r.tree, "config"), top+"/config")
	if err != nil {
		return err
	}
	files = append(files, archive.File{Name: top + "/" + plugin.License, Path: filepath.Join(r.tree, plugin.License)})
	return archive.Write(filepath.Join(r.stage, top+"-config.tar.gz"), files, r.Source.Time)
}

func (r *run) packChart(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(r.tree, chartFolder, "Chart.yaml")); err != nil {
		return fmt.Errorf("the tree has no chart: %w", err)
	}
	metadata, err := os.ReadFile(filepath.Join(r.tree, path.Dir(chartFolder), publish.MetadataFile))
	if err != nil {
		return fmt.Errorf("the tree has no metadata for Artifact Hub: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.stage, publish.MetadataFile), metadata, 0o644); err != nil {
		return err
	}
	// helm takes the time of the files from SOURCE_DATE_EPOCH, which is in the environment.
	return r.helm(ctx, "package", chartFolder, "--destination", r.stage,
		"--version", source.Plain(r.Version), "--app-version", r.Version).Run()
}

// checkChart does with the packed chart what its users do, and looks at the images that it names.
func (r *run) checkChart(ctx context.Context) error {
	chart := filepath.Join(r.stage, "holdfast-"+source.Plain(r.Version)+".tgz")
	if err := r.helm(ctx, "lint", "--strict", "--namespace", "holdfast-system", chart).Run(); err != nil {
		return fmt.Errorf("helm lint: %w", err)
	}
	var rendered bytes.Buffer
	cmd := r.helm(ctx, "template", "holdfast", chart, "--namespace", "holdfast-system")
	cmd.Stdout = &rendered
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("helm template: %w", err)
	}
	images, err := manifests.CheckImages(rendered.Bytes(), r.Version, r.digests)
	if err == nil && !slices.Contains(images, managerImage) {
		err = fmt.Errorf("it has the images %v: expected %s", images, managerImage)
	}
	return err
}

// helm prepares a helm that knows nothing of this machine's repositories and plugins.
func (r *run) helm(ctx context.Context, args ...string) *exec.Cmd {
	own := filepath.Join(r.work, "helm")
	prepared := r.tool(ctx, "helm", args...)
	prepared.Env = append(prepared.Env, "HELM_CACHE_HOME="+own, "HELM_CONFIG_HOME="+own, "HELM_DATA_HOME="+own, "HELM_PLUGINS="+own)
	return prepared
}
