package oci_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/oci"
)

var created = time.Unix(1_790_000_000, 0)

// archive returns the OCI archive for a stage of the Dockerfile. Each copied file contains its own name. The copied
// folder contains a folder, a program and a symbolic link.
func archive(t *testing.T, target string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stage, err := oci.ParseStage(string(text), target, map[string]string{"VERSION": "v9", "REVISION": "abc"})
	if err != nil {
		t.Fatal(err)
	}
	var images []oci.Image
	for _, arch := range []string{"amd64", "arm64"} {
		folder := t.TempDir()
		for _, c := range stage.Copies {
			name, mode := filepath.Join(folder, c.From), os.FileMode(0o600)
			if c.Folder() {
				check(t, os.MkdirAll(filepath.Join(name, "usr/lib"), 0o700))
				check(t, os.Symlink("usr/lib", filepath.Join(name, "lib")))
				name, mode = filepath.Join(name, "usr/lib/loader"), 0o700
			}
			check(t, os.MkdirAll(filepath.Dir(name), 0o700))
			check(t, os.WriteFile(name, []byte(arch+" "+c.From), mode))
		}
		images = append(images, oci.Image{Architecture: arch, Path: func(c oci.Copy) string { return filepath.Join(folder, c.From) }})
	}
	var out bytes.Buffer
	if err := oci.WriteArchive(&out, stage, images, "v9", created); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// unpack returns the contents of files and the targets of links in a tar file. The key of an entry is the name of the
// file, a space and the mode. A folder's name ends with a slash.
func unpack(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(created) {
			t.Errorf("%s: owner %d:%d, time %v", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[fmt.Sprintf("%s %o", h.Name, h.Mode)] = h.Linkname + string(content)
	}
}

// layout contains the files in an OCI archive. Its methods check the digests and sizes of blobs.
type layout map[string]string

func (l layout) get(t *testing.T, d map[string]any) string {
	t.Helper()
	digest := d["digest"].(string)
	blob, ok := l["blobs/"+strings.Replace(digest, ":", "/", 1)+" 644"]
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(blob))); !ok || got != digest || float64(len(blob)) != d["size"] {
		t.Fatalf("blob %v has the digest %s and %d bytes", d, got, len(blob))
	}
	return blob
}

func (l layout) object(t *testing.T, d map[string]any) map[string]any {
	t.Helper()
	return object(t, l.get(t, d))
}

func object(t *testing.T, text string) (o map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func items(value any) (list []map[string]any) {
	for _, v := range value.([]any) {
		list = append(list, v.(map[string]any))
	}
	return list
}

func TestArchive(t *testing.T) {
	l := layout(unpack(t, bytes.NewReader(archive(t, "gpuledger-archive"))))
	if l["oci-layout 644"] != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %q", l["oci-layout 644"])
	}
	top := items(object(t, l["index.json 644"])["manifests"])
	if len(top) != 1 || top[0]["annotations"].(map[string]any)["org.opencontainers.image.ref.name"] != "v9" {
		t.Fatalf("index %v, want one image with the tag", top)
	}
	for i, d := range items(l.object(t, top[0])["manifests"]) {
		arch := []string{"amd64", "arm64"}[i]
		if diff := cmp.Diff(map[string]any{"architecture": arch, "os": "linux"}, d["platform"]); diff != "" {
			t.Errorf("platform (-want +got):\n%s", diff)
		}
		m := l.object(t, d)
		layer := l.get(t, items(m["layers"])[0])
		z, err := gzip.NewReader(strings.NewReader(layer))
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"etc/ 755": "", "etc/ssl/ 755": "", "etc/ssl/certs/ 755": "",
			"etc/ssl/certs/ca-certificates.crt 644": arch + " /etc/ssl/certs/ca-certificates.crt",
			"LICENSE 644":                           arch + " /src/LICENSE",
			"gpuledger-archive 755":                 arch + " /src/bin/gpuledger-archive",
		}
		if diff := cmp.Diff(want, unpack(t, bytes.NewReader(content))); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		c := l.object(t, m["config"].(map[string]any))
		settings := c["config"].(map[string]any)
		labels := settings["Labels"].(map[string]any)
		if c["architecture"] != arch || settings["User"] != "65532:65532" || labels["org.opencontainers.image.version"] != "v9" ||
			labels["org.opencontainers.image.revision"] != "abc" || !strings.HasPrefix(labels["org.opencontainers.image.description"].(string), "Files the record") {
			t.Errorf("configuration %v", c)
		}
		if diff := cmp.Diff([]any{"/gpuledger-archive"}, settings["Entrypoint"]); diff != "" {
			t.Errorf("entry point (-want +got):\n%s", diff)
		}
		if _, ok := settings["ExposedPorts"].(map[string]any)["9841/tcp"]; !ok {
			t.Errorf("ports %v", settings["ExposedPorts"])
		}
		ids := c["rootfs"].(map[string]any)["diff_ids"].([]any)
		if ids[0] != fmt.Sprintf("sha256:%x", sha256.Sum256(content)) {
			t.Errorf("diff id %v", ids)
		}
	}
}

// TestFolder checks that the exporter's image contains the files from the Dockerfile's stage libc.
func TestFolder(t *testing.T) {
	l := layout(unpack(t, bytes.NewReader(archive(t, "exporter"))))
	all := l.object(t, items(object(t, l["index.json 644"])["manifests"])[0])
	m := l.object(t, items(all["manifests"])[0])
	z, err := gzip.NewReader(strings.NewReader(l.get(t, items(m["layers"])[0])))
	check(t, err)
	want := map[string]string{
		"usr/ 755": "", "usr/lib/ 755": "", "usr/lib/loader 755": "amd64 /root-filesystem", "lib 777": "usr/lib",
		"LICENSE 644":   "amd64 /src/LICENSE",
		"gpuledger 755": "amd64 /src/bin/gpuledger",
	}
	if diff := cmp.Diff(want, unpack(t, z)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	settings := l.object(t, m["config"].(map[string]any))["config"].(map[string]any)
	if diff := cmp.Diff([]any{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=utility"}, settings["Env"]); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func TestSameBytes(t *testing.T) {
	if !bytes.Equal(archive(t, "gpuledger-reconciler"), archive(t, "gpuledger-reconciler")) {
		t.Error("two archives differ")
	}
}

// TestParseStageErrors checks that ParseStage rejects a stage if Docker would build a different image from it.
func TestParseStageErrors(t *testing.T) {
	tests := []struct{ name, dockerfile, want string }{
		{"no such stage", "FROM scratch AS b\n", "no stage a"},
		{"another base", "FROM debian AS a\n", "not from scratch"},
		{"program", "FROM scratch AS a\nRUN make\n", "unknown instruction"},
		{"build context", "FROM scratch AS a\nCOPY x /x\n", "COPY --from=STAGE FILE FILE"},
		{"option", "FROM scratch AS a\nCOPY --chmod=755 --from=b /x /x\n", "COPY --from=STAGE FILE FILE"},
		{"unknown argument", "FROM scratch AS a\nLABEL v=\"$V\"\n", "no ARG V"},
		{"open quote", "FROM scratch AS a\nLABEL v=\"x\n", "quote is not closed"},
		{"entry point of a shell", "FROM scratch AS a\nENTRYPOINT /x\n", "invalid character"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := oci.ParseStage(tt.dockerfile, "a", nil); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestSource(t *testing.T) {
	files := map[string]string{
		"/src/LICENSE": "repository/LICENSE", "/src/bin/p": "programs/p", "/root-filesystem": "programs/root-filesystem", "/etc/own": "/etc/own",
	}
	for from, want := range files {
		if got := oci.Source("repository", "programs")(oci.Copy{From: from}); got != want {
			t.Errorf("%s is %s, want %s", from, got, want)
		}
	}
}
