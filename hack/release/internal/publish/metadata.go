// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// MetadataFile describes the repository of the chart to Artifact Hub. Its name is Artifact Hub's.
const MetadataFile = "artifacthub-repo.yml"

// Where and as what Artifact Hub looks for it: https://artifacthub.io/docs/topics/repositories/helm-charts/#oci-support.
const (
	metadataTag    = "artifacthub.io"
	metadataConfig = types.MediaType("application/vnd.cncf.artifacthub.config.v1+yaml")
	metadataLayer  = types.MediaType("application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml")
)

// PutMetadata puts the description of the chart's repository beside the chart. It is not of one version: a later one replaces it.
func (r *Release) PutMetadata(ctx context.Context) (Published, error) {
	tag, err := name.NewTag(r.Registry + "/" + charts + "/holdfast:" + metadataTag)
	if err != nil {
		return Published{}, err
	}
	text, err := os.ReadFile(filepath.Join(r.Folder, MetadataFile))
	if err != nil {
		return Published{}, err
	}
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer: static.NewLayer(text, metadataLayer), MediaType: metadataLayer,
		Annotations: map[string]string{"org.opencontainers.image.title": MetadataFile},
	})
	if err != nil {
		return Published{}, fmt.Errorf("describing the repository: %w", err)
	}
	image = mutate.ConfigMediaType(image, metadataConfig)
	digest, err := image.Digest()
	if err != nil {
		return Published{}, fmt.Errorf("describing the repository: %w", err)
	}
	found, err := standing(ctx, tag)
	if err != nil {
		return Published{}, err
	}
	if found != digest {
		if err := remote.Write(tag, image, options(ctx)...); err != nil {
			return Published{}, fmt.Errorf("publishing %s: %w", tag, err)
		}
	}
	fmt.Fprintf(r.Progress, "%s is %s\n", tag, digest)
	return Published{Tag: tag, Digest: digest}, nil
}
