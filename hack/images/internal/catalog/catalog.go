// SPDX-License-Identifier: Apache-2.0

// Package catalog reads which images there are to build, and says what each one
// is called.
package catalog

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"sigs.k8s.io/yaml"
)

const (
	// Release is the group of the images that users pull.
	Release = "release"
	// Cluster is the group of the images of clusters of our own.
	Cluster = "cluster"

	// DefaultRegistry is where config/manager expects the released images.
	DefaultRegistry = "ghcr.io/holdfast-dev"

	clusterRegistry = "holdfast.dev"
	clusterTag      = "dev"
)

// Image is one entry of the catalog.
type Image struct {
	// Name is the last part of the repository, and the name of the archive.
	Name string `json:"name"`
	// Group is Release or Cluster.
	Group string `json:"group"`
	// Title goes into the image's label org.opencontainers.image.title.
	Title string `json:"title"`
	// Files is all that the image contains.
	Files []File `json:"files"`
	// Entrypoint is the command that runs unless a pod names another.
	Entrypoint []string `json:"entrypoint"`
}

// File is one static binary of an image.
type File struct {
	// Path is where it stands in the image, absolute.
	Path string `json:"path"`
	// From is where it was built, relative to the top of the repository. $ARCH
	// stands for the architecture.
	From string `json:"from"`
}

// Load reads the catalog in file and refuses one with a mistake, naming each.
func Load(file string) ([]Image, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the catalog of images: %w", err)
	}
	images, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("the catalog of images %s: %w", file, err)
	}
	return images, nil
}

func parse(text []byte) ([]Image, error) {
	var catalog struct {
		Images []Image `json:"images"`
	}
	if err := yaml.UnmarshalStrict(text, &catalog); err != nil {
		return nil, err
	}
	if len(catalog.Images) == 0 {
		return nil, errors.New("it lists no image: expected at least one under images")
	}
	var mistakes []error
	seen := map[string]bool{}
	for i, image := range catalog.Images {
		if seen[image.Name] {
			mistakes = append(mistakes, fmt.Errorf("images[%d]: a second image is named %q", i, image.Name))
		}
		seen[image.Name] = true
		if err := image.validate(); err != nil {
			mistakes = append(mistakes, fmt.Errorf("images[%d] %q: %w", i, image.Name, err))
		}
	}
	return catalog.Images, errors.Join(mistakes...)
}

func (i Image) validate() error {
	if i.Group != Release && i.Group != Cluster {
		return fmt.Errorf("the group is %q: expected %s or %s", i.Group, Release, Cluster)
	}
	if _, err := name.NewRepository(path.Join(clusterRegistry, i.Name), name.StrictValidation); err != nil {
		return fmt.Errorf("the name cannot be one of a repository: %w", err)
	}
	if len(i.Files) == 0 {
		return errors.New("it has no files: expected at least one static binary")
	}
	for _, file := range i.Files {
		if !path.IsAbs(file.Path) || path.Clean(file.Path) != file.Path || file.Path == "/" {
			return fmt.Errorf("the path of a file is %q: expected an absolute one, like /manager", file.Path)
		}
		if file.From == "" {
			return fmt.Errorf("%s comes from nowhere: expected a path in `from`", file.Path)
		}
	}
	hasEntry := func(file File) bool { return len(i.Entrypoint) > 0 && file.Path == i.Entrypoint[0] }
	if !slices.ContainsFunc(i.Files, hasEntry) {
		return fmt.Errorf("the entrypoint is %q: expected the path of one of the files first", i.Entrypoint)
	}
	return nil
}

// Select returns the images of the group, in the order of the catalog. names
// narrow it; a name that is not in the group is an error.
func Select(images []Image, group string, names []string) ([]Image, error) {
	var selected []Image
	var known []string
	for _, image := range images {
		if image.Group != group {
			continue
		}
		known = append(known, image.Name)
		if len(names) == 0 || slices.Contains(names, image.Name) {
			selected = append(selected, image)
		}
	}
	for _, wanted := range names {
		if !slices.Contains(known, wanted) {
			return nil, fmt.Errorf("no image of the group %s is named %q: there are %s", group, wanted, strings.Join(known, ", "))
		}
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("the catalog has no image of the group %q: expected %s or %s", group, Release, Cluster)
	}
	return selected, nil
}

// Reference is the image's full name. registry and tag apply to released images
// only; an empty registry is DefaultRegistry.
func (i Image) Reference(registry, tag string) (name.Tag, error) {
	if i.Group == Cluster {
		registry, tag = clusterRegistry, clusterTag
	}
	if registry == "" {
		registry = DefaultRegistry
	}
	full := strings.TrimSuffix(registry, "/") + "/" + i.Name + ":" + tag
	reference, err := name.NewTag(full, name.StrictValidation)
	if err == nil && strings.Contains(registry, "//") {
		err = errors.New("a registry is a host and folders, without a scheme")
	}
	if err != nil {
		return name.Tag{}, fmt.Errorf("an image cannot be named %q: %w; set REGISTRY and TAG so that it can", full, err)
	}
	return reference, nil
}

// Source is the file's place below root for the architecture.
func (f File) Source(root, architecture string) string {
	return path.Join(root, strings.ReplaceAll(f.From, "$ARCH", architecture))
}
