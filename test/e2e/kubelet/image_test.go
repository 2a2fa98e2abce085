//go:build e2e

package kubelet_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// The first two images contain one program. The third is the image of the release.
const (
	pauseImage    = "gpuledger.test/pause:1"
	workloadImage = "gpuledger.test/workload:1"
	exporterImage = "ghcr.io/gpuledger/gpuledger:" + version
)

// image describes a container image. The tests build it without a registry and without a build tool.
type image struct {
	tags       []string
	entrypoint string
	files      map[string]string // paths of files on this machine, by path in the image
}

// write writes the image in the format of "docker save".
func (i image) write(archive string) error {
	files := make(map[string][]byte)
	for name, file := range i.files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		files[name] = data
	}
	layer, err := pack(files)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{i.entrypoint}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(digest[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "Layers": []string{"layer.tar"}, "RepoTags": i.tags}})
	if err != nil {
		return err
	}
	packed, err := pack(map[string][]byte{"layer.tar": layer, "config.json": config, "manifest.json": manifest})
	if err != nil {
		return err
	}
	return os.WriteFile(archive, packed, 0o644)
}

func (i image) load(t *testing.T) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	check(t, i.write(archive))
	_, err := ctr("images", "import", "--snapshotter=native", archive)
	check(t, err)
}

// pack returns a tar archive of files with mode 0755.
func pack(files map[string][]byte) ([]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for name, data := range files {
		errHeader := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))})
		_, err := w.Write(data)
		if err := errors.Join(errHeader, err); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return archive.Bytes(), err
}
