//go:build e2e

// Package image_test tests the images that the script run builds. It checks their content. Their programs must start
// without a driver. The exporter must count the energy of a simulated node with the rights that the manifests grant.
package image_test

import (
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

type image struct {
	Architecture string
	Config       struct {
		User       string
		Env        []string
		Entrypoint []string
		Labels     map[string]string
	}
	root string // folder with the image's file system
}

func open(t *testing.T, target, arch string) image {
	t.Helper()
	dir := filepath.Join(os.Getenv("GPULEDGER_E2E_IMAGES"), target+"-"+arch)
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatalf("no images, run make image-test: %v", err)
	}
	var i image
	check(t, json.Unmarshal(data, &i))
	i.root, err = filepath.EvalSymlinks(filepath.Join(dir, "rootfs"))
	check(t, err)
	return i
}

func (i image) program() string { return filepath.Join(i.root, i.Config.Entrypoint[0]) }

func version() string { return os.Getenv("GPULEDGER_E2E_VERSION") }

// TestConfiguration checks the architecture, the user and the version label of each image. The user must be a number.
func TestConfiguration(t *testing.T) {
	for target, user := range map[string]string{"gpuledger": "0:0", "gpuledger-reconciler": "65532:65532", "gpuledger-archive": "65532:65532"} {
		for _, arch := range []string{"amd64", "arm64"} {
			i := open(t, target, arch)
			if i.Architecture != arch || i.Config.User != user {
				t.Errorf("%s for %s: architecture %s, user %s, want user %s", target, arch, i.Architecture, i.Config.User, user)
			}
			if got := i.Config.Labels["org.opencontainers.image.version"]; got != version() {
				t.Errorf("%s for %s has version %q, want %q", target, arch, got, version())
			}
		}
	}
}

// TestPrograms checks that all programs of an image are for its architecture. The exporter must need only libraries
// that its image contains. The other programs must need none.
func TestPrograms(t *testing.T) {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for arch, machine := range machines {
		exporter := open(t, "gpuledger", arch)
		checkMachine(t, exporter, machine)
		for _, target := range []string{"gpuledger-reconciler", "gpuledger-archive"} {
			i := open(t, target, arch)
			checkMachine(t, i, machine)
			if needed := libraries(t, i.program()); len(needed) > 0 {
				t.Errorf("%s for %s needs libraries %v, want none", target, arch, needed)
			}
		}
		folder := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[arch]
		// The driver's library needs the four additional libraries. In newer versions of glibc, they are empty stubs.
		needed := append(libraries(t, exporter.program()), "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")
		for _, library := range needed {
			if _, err := os.Stat(filepath.Join(exporter.root, "usr/lib", folder, library)); err != nil {
				t.Errorf("the exporter's image for %s lacks a library: %v", arch, err)
			}
		}
	}
}

// TestAuthorities checks that the archive's image contains CA certificates. The archive needs them for stores and
// databases outside the cluster.
func TestAuthorities(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		text, err := os.ReadFile(filepath.Join(open(t, "gpuledger-archive", arch).root, "etc/ssl/certs/ca-certificates.crt"))
		check(t, err)
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			t.Errorf("the image for %s has no certificate authority", arch)
		}
	}
}

func libraries(t *testing.T, program string) []string {
	t.Helper()
	f, err := elf.Open(program)
	check(t, err)
	defer f.Close()
	names, err := f.ImportedLibraries()
	check(t, err)
	return names
}

// checkMachine also checks that no file is setuid or setgid.
func checkMachine(t *testing.T, i image, machine elf.Machine) {
	t.Helper()
	check(t, filepath.WalkDir(i.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("mode of %s: %v, want neither setuid nor setgid", path, info.Mode())
		}
		f, err := elf.Open(path)
		if err != nil {
			return nil // not a program
		}
		defer f.Close()
		if f.Machine != machine {
			t.Errorf("%s is for %v, want %v", path, f.Machine, machine)
		}
		return nil
	}))
}

// Programs for arm64 start in an emulator.
func TestStart(t *testing.T) {
	for _, target := range []string{"gpuledger", "gpuledger-reconciler", "gpuledger-archive"} {
		amd64, arm64 := open(t, target, "amd64"), open(t, target, "arm64")
		emulated, err := exec.Command("qemu-aarch64-static", "-L", arm64.root, arm64.program(), "--version").CombinedOutput()
		if err != nil {
			t.Errorf("start %s for arm64: %v\n%s", target, err, emulated)
		}
		for _, out := range []string{container{image: amd64, args: []string{"--version"}}.output(t), string(emulated)} {
			if !strings.HasPrefix(out, target+", version "+version()+" (branch: image-test, revision: ") {
				t.Errorf("%s --version prints %q, want its name and version", target, out)
			}
		}
	}
}
