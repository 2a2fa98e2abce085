package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// These media types are defined in the OCI image specification.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// Image describes the image for one architecture.
type Image struct {
	Architecture string // the value of GOARCH
	// Path returns the path on this machine of a file or folder that the stage copies into the image.
	Path func(Copy) string
}

type descriptor struct {
	Type        string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	System       string `json:"os"`
}

type index struct {
	Version   int          `json:"schemaVersion"`
	Type      string       `json:"mediaType"`
	Manifests []descriptor `json:"manifests"`
}

type manifest struct {
	Version int          `json:"schemaVersion"`
	Type    string       `json:"mediaType"`
	Config  descriptor   `json:"config"`
	Layers  []descriptor `json:"layers"`
}

type config struct {
	platform
	Created time.Time `json:"created"`
	Config  settings  `json:"config"`
	Root    root      `json:"rootfs"`
}

type settings struct {
	User       string              `json:",omitempty"`
	Ports      map[string]struct{} `json:"ExposedPorts,omitempty"`
	Env        []string            `json:",omitempty"`
	Entrypoint []string            `json:",omitempty"`
	Labels     map[string]string   `json:",omitempty"`
}

type root struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// WriteArchive writes the images of a stage as an OCI archive. The archive is a tar file with an image layout. The
// layout has one index with the images for all architectures. The name of the index is the tag. Every file has the
// image's creation time as its time, so equal input results in equal bytes.
func WriteArchive(w io.Writer, s *Stage, images []Image, tag string, created time.Time) error {
	a := archive{tar: tar.NewWriter(w), time: created.UTC().Truncate(time.Second)}
	a.write("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	all := index{Version: 2, Type: typeIndex}
	for _, i := range images {
		d, err := a.image(s, i)
		if err != nil {
			return fmt.Errorf("image for %s: %w", i.Architecture, err)
		}
		all.Manifests = append(all.Manifests, d)
	}
	top := a.json(typeIndex, all)
	top.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag}
	text, err := json.Marshal(index{Version: 2, Type: typeIndex, Manifests: []descriptor{top}})
	if err != nil {
		return err
	}
	a.write("index.json", text)
	if a.err != nil {
		return a.err
	}
	return a.tar.Close()
}

type archive struct {
	tar  *tar.Writer
	time time.Time
	err  error // first error
}

func (a *archive) write(name string, content []byte) {
	if a.err != nil {
		return
	}
	if a.err = a.tar.WriteHeader(a.header(name, 0o644, len(content))); a.err == nil {
		_, a.err = a.tar.Write(content)
	}
}

func (a *archive) header(name string, mode int64, size int) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(size), ModTime: a.time, Format: tar.FormatUSTAR}
}

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

func (a *archive) blob(mediaType string, content []byte) descriptor {
	d := descriptor{Type: mediaType, Digest: digest(content), Size: len(content)}
	a.write("blobs/"+strings.Replace(d.Digest, ":", "/", 1), content)
	return d
}

func (a *archive) json(mediaType string, value any) descriptor {
	text, err := json.Marshal(value)
	if a.err == nil {
		a.err = err
	}
	return a.blob(mediaType, text)
}

func (a *archive) image(s *Stage, i Image) (descriptor, error) {
	layer, err := a.layer(s, i)
	if err != nil {
		return descriptor{}, err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return descriptor{}, err
	}
	if _, err := z.Write(layer); err != nil {
		return descriptor{}, err
	}
	if err := z.Close(); err != nil {
		return descriptor{}, err
	}
	of := platform{Architecture: i.Architecture, System: "linux"}
	c := config{
		platform: of, Created: a.time,
		Config: settings{User: s.User, Env: s.Env, Entrypoint: s.Entrypoint, Labels: s.Labels, Ports: make(map[string]struct{})},
		Root:   root{Type: "layers", DiffIDs: []string{digest(layer)}},
	}
	for _, port := range s.Ports {
		c.Config.Ports[port] = struct{}{}
	}
	m := manifest{Version: 2, Type: typeManifest, Config: a.json(typeConfig, c), Layers: []descriptor{a.blob(typeLayer, packed.Bytes())}}
	d := a.json(typeManifest, m)
	d.Platform = &of
	return d, a.err
}

// layer returns a tar file with an image's files and their folders. All of them belong to root. The entry point is
// executable.
func (a *archive) layer(s *Stage, i Image) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := make(map[string]bool)
	for _, c := range s.Copies {
		var err error
		if c.Folder() {
			err = a.tree(w, i.Path(c), c.To, made)
		} else {
			err = a.file(w, i.Path(c), c.To, len(s.Entrypoint) > 0 && s.Entrypoint[0] == c.To, made)
		}
		if err != nil {
			return nil, fmt.Errorf("copy to %s: %w", c.To, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (a *archive) folders(w *tar.Writer, folder string, made map[string]bool) error {
	if folder == "/" || made[folder] {
		return nil
	}
	if err := a.folders(w, path.Dir(folder), made); err != nil {
		return err
	}
	made[folder] = true
	h := a.header(strings.TrimPrefix(folder, "/")+"/", 0o755, 0)
	h.Typeflag = tar.TypeDir
	return w.WriteHeader(h)
}

// file writes a file and its parent folders.
func (a *archive) file(w *tar.Writer, from, to string, executable bool, made map[string]bool) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := a.folders(w, path.Dir(to), made); err != nil {
		return err
	}
	mode := int64(0o644)
	if executable {
		mode = 0o755
	}
	if err := w.WriteHeader(a.header(strings.TrimPrefix(to, "/"), mode, len(content))); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

func (a *archive) tree(w *tar.Writer, from, to string, made map[string]bool) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		to := path.Join(to, relative)
		if relative == "." && !entry.IsDir() {
			return fmt.Errorf("%s is not a folder", from)
		}
		switch entry.Type() {
		case fs.ModeDir:
			return a.folders(w, to, made)
		case fs.ModeSymlink:
			h := a.header(strings.TrimPrefix(to, "/"), 0o777, 0)
			h.Typeflag = tar.TypeSymlink
			if h.Linkname, err = os.Readlink(name); err != nil {
				return err
			}
			return w.WriteHeader(h)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return a.file(w, name, to, info.Mode()&0o111 != 0, made)
	})
}

// Source returns a function that converts paths in the Dockerfile's builder stages to paths on this machine. /src
// becomes repository, /src/bin becomes programs, and /root-filesystem becomes the folder root-filesystem in programs.
// Other paths stay unchanged, such as the path of Debian's certificate authorities.
func Source(repository, programs string) func(Copy) string {
	return func(c Copy) string {
		if program, ok := strings.CutPrefix(c.From, "/src/bin/"); ok {
			return filepath.Join(programs, program)
		}
		if file, ok := strings.CutPrefix(c.From, "/src/"); ok {
			return filepath.Join(repository, file)
		}
		if c.From == "/root-filesystem" {
			return filepath.Join(programs, c.From)
		}
		return c.From
	}
}
