// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// charts is the folder of the charts in a registry.
const charts = "charts"

// Release is a release that was made, and where it is published.
type Release struct {
	// Folder has the files, Version is theirs, and Chart the chart's, which has no v.
	Folder, Version, Chart string
	// Registry is the host and the folder, such as ghcr.io/holdfast-dev.
	Registry string
	// Helm prepares a helm.
	Helm func(ctx context.Context, args ...string) *exec.Cmd
	// Progress gets a line for each thing that is in the registry.
	Progress io.Writer
}

// Published is one thing in the registry.
type Published struct {
	// Tag is by what it is found, and Digest what the tag stands for.
	Tag    name.Tag
	Digest v1.Hash
	// Bill is the file of the release with the bill of materials that is attested for it.
	Bill string
}

// Bill is the name of the file with the bill of materials of an image, or of all of the release for the name holdfast.
func Bill(name, version string) string { return name + "-" + version + ".cdx.json" }

// ByDigest names it so that nothing else can be meant.
func (p Published) ByDigest() string { return p.Tag.Context().Digest(p.Digest.String()).String() }

// Line describes it to the workflow, which signs and attests: tag, name by digest, file of the bill of materials.
func (p Published) Line() string { return fmt.Sprintf("%s %s %s\n", p.Tag, p.ByDigest(), p.Bill) }

// ChartReference is the chart as helm takes it.
func (r *Release) ChartReference() string {
	return "oci://" + r.Registry + "/" + charts + "/holdfast:" + r.Chart
}

// Put puts the images and then the chart, which names them, into the registry, with the credentials that docker login or another tool has left for it.
// What stands there already stays; a tag that stands for something else is refused.
func (r *Release) Put(ctx context.Context) ([]Published, error) {
	archives, err := filepath.Glob(filepath.Join(r.Folder, "*-"+r.Version+".oci.tar"))
	if err != nil {
		return nil, err
	}
	if len(archives) == 0 {
		return nil, fmt.Errorf("%s has no image of %s: make the release first", r.Folder, r.Version)
	}
	var put []Published
	for _, archive := range slices.Sorted(slices.Values(archives)) {
		image, err := r.putImage(ctx, archive)
		if err != nil {
			return nil, err
		}
		put = append(put, image)
	}
	chart, err := r.putChart(ctx)
	if err != nil {
		return nil, err
	}
	return append(put, chart), nil
}

func (r *Release) putImage(ctx context.Context, archive string) (Published, error) {
	repository := strings.TrimSuffix(filepath.Base(archive), "-"+r.Version+".oci.tar")
	tag, err := name.NewTag(r.Registry + "/" + repository + ":" + r.Version)
	if err != nil {
		return Published{}, err
	}
	put := Published{Tag: tag, Bill: Bill(repository, r.Version)}
	err = open(ctx, archive, func(image v1.ImageIndex, digest v1.Hash) error {
		put.Digest = digest
		found, err := standing(ctx, tag)
		if err != nil {
			return err
		}
		if found != (v1.Hash{}) && found != digest {
			return fmt.Errorf("%s stands for %s already, and the release has %s: a version is published once", tag, found, digest)
		}
		fmt.Fprintf(r.Progress, "%s is %s\n", tag, digest)
		if err := remote.WriteIndex(tag, image, options(ctx)...); err != nil {
			return fmt.Errorf("publishing %s: %w", tag, err)
		}
		return nil
	})
	return put, err
}

// putChart leaves a chart of the version that is there: its archive has to be the same bytes.
func (r *Release) putChart(ctx context.Context) (Published, error) {
	tag, err := name.NewTag(r.Registry + "/" + charts + "/holdfast:" + r.Chart)
	if err != nil {
		return Published{}, err
	}
	archive := filepath.Join(r.Folder, "holdfast-"+r.Chart+".tgz")
	digest, err := standing(ctx, tag)
	if err != nil {
		return Published{}, err
	}
	if digest == (v1.Hash{}) {
		push := r.Helm(ctx, append([]string{"push", archive, "oci://" + r.Registry + "/" + charts}, r.Transport()...)...)
		if out, err := push.CombinedOutput(); err != nil {
			return Published{}, fmt.Errorf("publishing %s: %w: %s", tag, err, out)
		}
		if digest, err = standing(ctx, tag); err != nil {
			return Published{}, err
		}
	}
	if err := holds(ctx, tag, archive); err != nil {
		return Published{}, err
	}
	fmt.Fprintf(r.Progress, "%s is %s\n", tag, digest)
	return Published{Tag: tag, Digest: digest, Bill: Bill("holdfast", r.Version)}, nil
}

// Transport is helm's flags for a registry on this machine, which has no TLS.
func (r *Release) Transport() []string {
	if registry, err := name.NewRegistry(strings.SplitN(r.Registry, "/", 2)[0]); err == nil && registry.Scheme() == "http" {
		return []string{"--plain-http"}
	}
	return nil
}

// standing is the digest for which a tag stands; zero where there is no such tag.
func standing(ctx context.Context, tag name.Tag) (v1.Hash, error) {
	found, err := remote.Head(tag, options(ctx)...)
	var failure *transport.Error
	if errors.As(err, &failure) && failure.StatusCode == http.StatusNotFound {
		return v1.Hash{}, nil
	}
	if err != nil {
		return v1.Hash{}, fmt.Errorf("looking for %s: %w", tag, err)
	}
	return found.Digest, nil
}

func options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
}
