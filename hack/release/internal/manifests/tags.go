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

// Check refuses kustomizations below folder that give other images of Registry's a tag than these, which are sorted.
func Check(folder string, images []string) error {
	found := map[string]bool{}
	err := kustomizations(folder, func(_ string, _ []byte, nodes []tagNode) error {
		for _, node := range nodes {
			found[node.image] = true
		}
		return nil
	})
	if got := slices.Sorted(maps.Keys(found)); err == nil && !slices.Equal(got, images) {
		err = fmt.Errorf("the kustomizations below %s give %v a tag: expected %v", folder, got, images)
	}
	return err
}

// Set writes the tag, and the digest of the image, into every kustomization below folder that gives one of
// Registry's images a tag, and leaves every other byte as it is.
func Set(folder, tag string, digests map[string]string) error {
	return kustomizations(folder, func(path string, text []byte, nodes []tagNode) error {
		if len(nodes) == 0 {
			return nil
		}
		changed, err := set(text, nodes, tag, digests)
		if err != nil {
			return fmt.Errorf("setting the images in %s: %w", path, err)
		}
		return os.WriteFile(path, changed, 0o644)
	})
}

// Tag is the one tag that the kustomizations below folder give Registry's images.
func Tag(folder string) (string, error) {
	tags := map[string]bool{}
	err := kustomizations(folder, func(_ string, _ []byte, nodes []tagNode) error {
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

// kustomizations calls visit with each kustomization below folder, and the tags that it gives Registry's images.
func kustomizations(folder string, visit func(path string, text []byte, nodes []tagNode) error) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
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
		return visit(path, text, nodes)
	})
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

func set(text []byte, nodes []tagNode, tag string, digests map[string]string) ([]byte, error) {
	lines := strings.SplitAfter(string(text), "\n")
	for _, node := range nodes {
		line := lines[node.tag.Line-1]
		before, rest := line[:node.tag.Column-1], line[node.tag.Column-1:]
		if node.tag.Style != 0 || !strings.HasPrefix(rest, node.tag.Value) || strings.TrimLeft(before, " ") != "newTag: " || !strings.HasSuffix(line, "\n") {
			return nil, fmt.Errorf("line %d: the tag of %s is written in an unexpected form: expected newTag: %s, without quotes, on a line of its own",
				node.tag.Line, node.image, node.tag.Value)
		}
		digest := strings.Repeat(" ", len(before)-len("newTag: ")) + "digest: " + digests[node.image] + "\n"
		lines[node.tag.Line-1] = before + tag + strings.TrimPrefix(rest, node.tag.Value) + digest
	}
	return []byte(strings.Join(lines, "")), nil
}

// CheckImages refuses rendered manifests that name one of Registry's images otherwise than by
// this tag and its digest, and gives the images that they name, sorted.
func CheckImages(rendered []byte, tag string, digests map[string]string) ([]string, error) {
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
			name = strings.TrimSuffix(name, "@sha256")
			if !strings.HasPrefix(name, Registry+"/") {
				return
			}
			found[name] = true
			if want := tag + "@" + digests[name]; got != want {
				mistakes = append(mistakes, fmt.Errorf("a container runs %s: expected %s", image, want))
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
