// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// importPause makes an image of one static binary and nothing else, and gives it to containerd.
func (c *containerd) importPause(ctx context.Context) {
	GinkgoHelper()
	binary := filepath.Join(c.dir, "pause")
	run("env", "CGO_ENABLED=0", "go", "build", "-o", binary, "./test/node/pause")
	content, err := os.ReadFile(binary)
	Expect(err).NotTo(HaveOccurred())
	layer := archive(map[string][]byte{"pause": content})
	sum := sha256.Sum256(layer)
	config := encode(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Entrypoint": []string{"/pause"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	image := filepath.Join(c.dir, "pause.tar")
	write(image, string(archive(map[string][]byte{
		"config.json": config, "layer.tar": layer,
		"manifest.json": encode([]any{map[string]any{"Config": "config.json", "RepoTags": []string{pauseImage}, "Layers": []string{"layer.tar"}}}),
	})))
	run("ctr", "--address", c.socket, "--namespace", "k8s.io", "images", "import", image)
	Eventually(ctx, func() string {
		return run("ctr", "--address", c.socket, "--namespace", "k8s.io", "images", "ls", "-q")
	}).Should(ContainSubstring(pauseImage))
}

func archive(files map[string][]byte) []byte {
	GinkgoHelper()
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for name, content := range files {
		Expect(writer.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg})).To(Succeed())
		_, err := writer.Write(content)
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(writer.Close()).To(Succeed())
	return buffer.Bytes()
}

func encode(value any) []byte {
	GinkgoHelper()
	content, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	return content
}
