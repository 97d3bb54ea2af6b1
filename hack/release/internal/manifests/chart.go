// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// digestAnnotation is what the chart's templates read: the name of the program, with the digest of its image.
const digestAnnotation = "holdfast.dev/%s-digest"

// SetChart writes the digests of the images into the chart's metadata, for its templates, and what Artifact Hub shows: the list of images, and that a
// version is a pre-release. Every other byte stays as it is.
func SetChart(file, tag string, digests map[string]string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	const annotations = "\nannotations:\n"
	before, after, found := strings.Cut(string(text), annotations)
	if !found {
		return fmt.Errorf("%s has no annotations: expected a line annotations: of its own", file)
	}
	var lines, images strings.Builder
	for _, image := range slices.Sorted(maps.Keys(digests)) {
		program := strings.TrimPrefix(path.Base(image), "holdfast-")
		fmt.Fprintf(&lines, "  "+digestAnnotation+": %s\n", program, digests[image])
		fmt.Fprintf(&images, "    - name: %s\n      image: %s:%s@%s\n", program, image, tag, digests[image])
	}
	lines.WriteString("  artifacthub.io/images: |\n" + images.String())
	if semver.Prerelease(tag) != "" {
		lines.WriteString("  artifacthub.io/prerelease: \"true\"\n")
	}
	return os.WriteFile(file, []byte(before+annotations+lines.String()+after), 0o644)
}
