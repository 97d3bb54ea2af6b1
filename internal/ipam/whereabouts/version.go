// SPDX-License-Identifier: Apache-2.0

package whereabouts

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// separated is the first version whose reconciler has a Deployment of its own (whereabouts' commit 5f17aebc).
var separated = [3]int{0, 9, 4}

// versionTag is a tag that names a version; what follows may be a distribution's build, or the mark of a pre-release.
var versionTag = regexp.MustCompile(`^v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?:[-+._](.*))?$`)

// preRelease is a suffix by which a tag is older than its numbers.
var preRelease = regexp.MustCompile(`^(?i:rc|alpha|beta|pre|dev|snapshot)`)

// ReconcilerShared reports whether whereabouts' reconciler may run in a pod with these images, under the pod's token: unless every whereabouts
// image among them, one at least, has the tag of a version in which it does not.
func (b *Backend) ReconcilerShared(images []string) bool {
	found := false
	for _, image := range images {
		repository, tag := splitImage(image)
		if !strings.Contains(repository[strings.LastIndex(repository, "/")+1:], Name) {
			continue
		}
		if !isSeparated(tag) {
			return true
		}
		found = true
	}
	return !found
}

// splitImage parts an image's name from its tag; a digest after the tag makes no difference.
func splitImage(image string) (repository, tag string) {
	image, _, _ = strings.Cut(image, "@")
	at := strings.LastIndex(image, ":")
	if at < strings.LastIndex(image, "/") || at < 0 { // a port is no tag
		return image, ""
	}
	return image[:at], image[at+1:]
}

func isSeparated(tag string) bool {
	parts := versionTag.FindStringSubmatch(tag)
	if parts == nil {
		return false
	}
	var version [3]int
	for i := range version {
		version[i], _ = strconv.Atoi(parts[i+1]) // four digits always parse
	}
	order := slices.Compare(version[:], separated[:])
	return order > 0 || order == 0 && !preRelease.MatchString(parts[4])
}
