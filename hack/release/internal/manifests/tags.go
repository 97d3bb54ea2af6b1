// SPDX-License-Identifier: Apache-2.0

// Package manifests gives the kustomizations of a tree the images of a release,
// and checks that what was rendered of them names no other.
package manifests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Registry is where the released images are, with its folder.
const Registry = "ghcr.io/holdfast-dev"

// SetTags writes the tag into every kustomization below folder that gives one of
// Registry's images a tag, and leaves every other byte as it is. It gives the images that it
// found, sorted.
func SetTags(folder, tag string) ([]string, error) {
	found := map[string]bool{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != "kustomization.yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed, images, err := setTags(text, tag)
		if err != nil {
			return fmt.Errorf("setting the tags in %s: %w", path, err)
		}
		for _, image := range images {
			found[image] = true
		}
		if len(images) == 0 {
			return nil
		}
		return os.WriteFile(path, changed, 0o644)
	})
	return slices.Sorted(maps.Keys(found)), err
}

// Tag is the one tag that the kustomizations below folder give Registry's images.
func Tag(folder string) (string, error) {
	tags := map[string]bool{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != "kustomization.yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		nodes, err := tagNodes(text)
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		for _, node := range nodes {
			tags[node.tag.Value] = true
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if len(tags) != 1 {
		return "", fmt.Errorf("the kustomizations below %s give the images of %s the tags %v: expected one",
			folder, Registry, slices.Sorted(maps.Keys(tags)))
	}
	for tag := range tags {
		return tag, nil
	}
	return "", nil
}

// tagNode is where a kustomization says the tag of an image.
type tagNode struct {
	image string
	tag   *yaml.Node
}

func tagNodes(text []byte) ([]tagNode, error) {
	var kustomization struct {
		Images []struct {
			Name   string    `yaml:"name"`
			NewTag yaml.Node `yaml:"newTag"`
		} `yaml:"images"`
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		return nil, err
	}
	var nodes []tagNode
	for _, image := range kustomization.Images {
		if strings.HasPrefix(image.Name, Registry+"/") && !image.NewTag.IsZero() {
			nodes = append(nodes, tagNode{image.Name, &image.NewTag})
		}
	}
	return nodes, nil
}

func setTags(text []byte, tag string) ([]byte, []string, error) {
	nodes, err := tagNodes(text)
	if err != nil {
		return nil, nil, err
	}
	lines := strings.SplitAfter(string(text), "\n")
	var images []string
	for _, node := range nodes {
		line := lines[node.tag.Line-1]
		before, rest := line[:node.tag.Column-1], line[node.tag.Column-1:]
		if node.tag.Style != 0 || !strings.HasPrefix(rest, node.tag.Value) {
			return nil, nil, fmt.Errorf("line %d: the tag of %s is written in an unexpected form: expected newTag: %s, without quotes",
				node.tag.Line, node.image, node.tag.Value)
		}
		lines[node.tag.Line-1] = before + tag + strings.TrimPrefix(rest, node.tag.Value)
		images = append(images, node.image)
	}
	return []byte(strings.Join(lines, "")), images, nil
}

// CheckImages refuses rendered manifests that name one of Registry's images with
// another tag than this one, and gives the images that they name, sorted.
func CheckImages(rendered []byte, tag string) ([]string, error) {
	found := map[string]bool{}
	decoder := yaml.NewDecoder(strings.NewReader(string(rendered)))
	var mistakes []error
	for {
		var object yaml.Node
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return slices.Sorted(maps.Keys(found)), errors.Join(mistakes...)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the rendered manifests: %w", err)
		}
		walk(&object, func(image string) {
			name, got, _ := strings.Cut(image, ":")
			if !strings.HasPrefix(name, Registry+"/") {
				return
			}
			found[name] = true
			if got != tag {
				mistakes = append(mistakes, fmt.Errorf("a container runs %s: expected the tag %s", image, tag))
			}
		})
	}
}

// walk calls visit with every text that stands under the key image.
func walk(node *yaml.Node, visit func(string)) {
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 1 && node.Content[i-1].Value == "image" && child.Kind == yaml.ScalarNode {
			visit(child.Value)
		}
		walk(child, visit)
	}
}
