package program

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestBuilt(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"gpuledger-archive", "simnode"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ bin, name, want string }{
		{"", "gpuledger-archive", BinEnv + " is not set"},
		{dir, "gpuledger-archive", ""},
		{dir, "gpuledger", "gpuledger: no such file"},
		{dir, "simnode", "gpuledger: no such file"}, // simnode starts it
	} {
		t.Setenv(BinEnv, tt.bin)
		path, err := Built(tt.name)
		if tt.want == "" && (err != nil || path != filepath.Join(tt.bin, tt.name)) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s in %q: %q, %v; want error %q", tt.name, tt.bin, path, err, tt.want)
		}
	}
}

func TestSources(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files, err := sources(t.Context(), "-test", "../../cmd/simnode", "../../internal/simnode/fakes/compile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"cmd/simnode/main.go", "cmd/simnode/main_test.go", "internal/gpu/device.go",
		"internal/simnode/fakes/nvml.c", "internal/simnode/fakes/state.h", // embedded
	} {
		if !slices.Contains(files, filepath.Join(root, want)) {
			t.Errorf("%s is missing", want)
		}
	}
	if i := slices.IndexFunc(files, func(file string) bool { return strings.Contains(file, "/google.golang.org/") }); i >= 0 {
		t.Errorf("%s is in another module", files[i])
	}
}
