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
	"runtime"
)

// The images: one program under two names.
const (
	pauseImage    = "gpuledger.test/pause:1"
	workloadImage = "gpuledger.test/workload:1"
)

// writeImage writes an archive, as "docker save" does, of an image whose only file
// is a static program. No registry is needed, and no tool that builds images.
func writeImage(archive, program string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := pack(map[string][]byte{"workload": binary})
	if err != nil {
		return err
	}
	digest := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{"/workload"}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(digest[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "Layers": []string{"layer.tar"}, "RepoTags": []string{pauseImage, workloadImage},
	}})
	if err != nil {
		return err
	}
	image, err := pack(map[string][]byte{"layer.tar": layer, "config.json": config, "manifest.json": manifest})
	if err != nil {
		return err
	}
	return os.WriteFile(archive, image, 0o644)
}

// pack returns a tar archive of files that everybody may execute.
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
