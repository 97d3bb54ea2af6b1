// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Artifact Hub takes the one layer of its media type under its own tag; a changed file replaces what is there.
func TestTheMetadataOfTheRepositoryIsWhereArtifactHubLooks(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	r := &Release{Folder: t.TempDir(), Registry: strings.TrimPrefix(server.URL, "http://") + "/x", Progress: io.Discard}
	for _, text := range []string{"repositoryID: a\n", "repositoryID: b\n", "repositoryID: b\n"} {
		if err := os.WriteFile(filepath.Join(r.Folder, "artifacthub-repo.yml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		put, err := r.PutMetadata(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, layer := pulled(t, r.Registry+"/charts/holdfast:artifacthub.io"); got != put.Digest.String() || layer != text {
			t.Errorf("the registry has %s with %q: want %s with %q", got, layer, put.Digest, text)
		}
	}
}

// pulled is the digest of a reference, and the text of its one layer.
func pulled(t *testing.T, reference string) (digest, text string) {
	t.Helper()
	parsed, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(parsed)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil || len(manifest.Layers) != 1 {
		t.Fatalf("the layers are %v, %v: want one", manifest, err)
	}
	if got := string(manifest.Config.MediaType); got != "application/vnd.cncf.artifacthub.config.v1+yaml" {
		t.Errorf("the configuration is of the type %s", got)
	}
	if got := string(manifest.Layers[0].MediaType); got != "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml" {
		t.Errorf("the layer is of the type %s", got)
	}
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	read, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	return hash.String(), string(read)
}
