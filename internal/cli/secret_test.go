package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/cli"
)

// TestSecret checks the modes of files on a host and in a Secret volume. Root may read all files. If root runs the
// test, it therefore also shows that the program checks the mode.
func TestSecret(t *testing.T) {
	tests := []struct {
		mode         os.FileMode
		host, volume string // part of the error on a host, and in a Secret volume
	}{
		{0o400, "", ""},
		{0o440, "", ""},
		{0o600, "", ""},
		{0o640, "", ""},
		{0o644, "read", ""},
		{0o444, "read", ""},
		{0o604, "read", ""},
		{0o660, "change", "change"},
		{0o620, "change", "change"},
		{0o602, "change", "change"},
		{0o666, "change", "change"},
		{0o777, "change", "change"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%04o", tt.mode), func(t *testing.T) {
			host := filepath.Join(t.TempDir(), "token")
			writeMode(t, host, tt.mode)
			// The kubelet's links are token -> ..data/token and ..data -> ..2026_11_01_12_00_00.1.
			volume := t.TempDir()
			check(t, os.Mkdir(filepath.Join(volume, "..2026_11_01_12_00_00.1"), 0o700))
			writeMode(t, filepath.Join(volume, "..2026_11_01_12_00_00.1", "token"), tt.mode)
			check(t, os.Symlink("..2026_11_01_12_00_00.1", filepath.Join(volume, "..data")))
			check(t, os.Symlink("..data/token", filepath.Join(volume, "token")))
			for path, want := range map[string]string{host: tt.host, filepath.Join(volume, "token"): tt.volume} {
				text, err := cli.ReadSecret(path)
				checked := cli.CheckSecret("a.flag", path)
				if want == "" {
					if string(text) != "secret" || err != nil || checked != nil {
						t.Errorf("%s: %q, %v, %v", path, text, err, checked)
					}
					continue
				}
				for _, err := range []error{err, checked} {
					if err == nil || !strings.Contains(err.Error(), want+" it") || !strings.Contains(err.Error(), path) {
						t.Errorf("%s: error %v, want one with %q", path, err, want)
					}
				}
				if len(text) != 0 || !strings.HasPrefix(checked.Error(), "--a.flag: ") {
					t.Errorf("%s: %q, %v", path, text, checked)
				}
			}
		})
	}
}

func TestSecretFiles(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "token")
	if _, err := cli.ReadSecret(missing); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
	for _, path := range []string{"", missing} {
		if err := cli.CheckSecret("a.flag", path); err != nil {
			t.Errorf("file %q: %v", path, err)
		}
	}
	large := filepath.Join(t.TempDir(), "large")
	check(t, os.WriteFile(large, make([]byte, 2<<20), 0o600))
	if _, err := cli.ReadSecret(large); err == nil {
		t.Error("a file of 2 MiB is accepted")
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	check(t, unix.Mkfifo(pipe, 0o644))
	if err := cli.CheckSecret("a.flag", pipe); err != nil {
		t.Errorf("a pipe: %v", err)
	}
}

func writeMode(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	check(t, os.WriteFile(path, []byte("secret"), 0o600))
	check(t, os.Chmod(path, mode))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
