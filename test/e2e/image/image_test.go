//go:build e2e

// Package image_test runs the images that the script run has built: what is in them,
// that they start without a driver, and that the exporter counts a simulated node's
// joules with the rights that the manifests leave it.
package image_test

import (
	"debug/elf"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// image is an image that was unpacked, and its configuration.
type image struct {
	Architecture string
	Config       struct {
		User       string
		Env        []string
		Entrypoint []string
		Labels     map[string]string
	}
	root string // the folder that is its file system
}

// open reads the image of a target for an architecture.
func open(t *testing.T, target, arch string) image {
	t.Helper()
	dir := filepath.Join(os.Getenv("GPULEDGER_E2E_IMAGES"), target+"-"+arch)
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatalf("there are no images; make image-test builds them: %v", err)
	}
	var i image
	check(t, json.Unmarshal(data, &i))
	i.root, err = filepath.EvalSymlinks(filepath.Join(dir, "rootfs"))
	check(t, err)
	return i
}

// program returns where the image's program is on this machine.
func (i image) program() string { return filepath.Join(i.root, i.Config.Entrypoint[0]) }

func version() string { return os.Getenv("GPULEDGER_E2E_VERSION") }

// TestConfiguration checks that each image has its description, and that the reconciler's has no
// user name.
func TestConfiguration(t *testing.T) {
	for target, user := range map[string]string{"gpuledger": "0:0", "gpuledger-reconciler": "65532:65532"} {
		for _, arch := range []string{"amd64", "arm64"} {
			i := open(t, target, arch)
			if i.Architecture != arch || i.Config.User != user {
				t.Errorf("%s for %s is for %s, as user %s; want user %s", target, arch, i.Architecture, i.Config.User, user)
			}
			if got := i.Config.Labels["org.opencontainers.image.version"]; got != version() {
				t.Errorf("%s for %s has version %q, want %q", target, arch, got, version())
			}
		}
	}
}

// TestPrograms: everything in an image is of its architecture, the exporter needs
// nothing that is not there, and the reconciler needs nothing.
func TestPrograms(t *testing.T) {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for arch, machine := range machines {
		exporter, reconciler := open(t, "gpuledger", arch), open(t, "gpuledger-reconciler", arch)
		for _, i := range []image{exporter, reconciler} {
			checkMachine(t, i, machine)
		}
		if needed := libraries(t, reconciler.program()); len(needed) > 0 {
			t.Errorf("the reconciler for %s needs %v", arch, needed)
		}
		folder := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[arch]
		// The last four are what the driver's library needs: stubs of an old glibc.
		needed := append(libraries(t, exporter.program()), "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")
		for _, library := range needed {
			if _, err := os.Stat(filepath.Join(exporter.root, "usr/lib", folder, library)); err != nil {
				t.Errorf("the exporter for %s lacks a library: %v", arch, err)
			}
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

// checkMachine: all programs and libraries of an image are for one machine, and
// nothing in it can be run with another user's rights.
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
			t.Errorf("%s is %v", path, info.Mode())
		}
		f, err := elf.Open(path)
		if err != nil {
			return nil // no program
		}
		defer f.Close()
		if f.Machine != machine {
			t.Errorf("%s is for %v, want %v", path, f.Machine, machine)
		}
		return nil
	}))
}

// TestStart: the programs start where there is no driver, those for arm64 under an
// emulator.
func TestStart(t *testing.T) {
	for _, target := range []string{"gpuledger", "gpuledger-reconciler"} {
		amd64, arm64 := open(t, target, "amd64"), open(t, target, "arm64")
		emulated, err := exec.Command("qemu-aarch64-static", "-L", arm64.root, arm64.program(), "--version").CombinedOutput()
		if err != nil {
			t.Errorf("%s for arm64: %v\n%s", target, err, emulated)
		}
		for _, out := range []string{container{image: amd64, args: []string{"--version"}}.output(t), string(emulated)} {
			if !strings.HasPrefix(out, target+", version "+version()+" (branch: image-test, revision: ") {
				t.Errorf("%s prints %q", target, out)
			}
		}
	}
}
