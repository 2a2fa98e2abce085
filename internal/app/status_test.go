package app_test

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/status"
)

// checkStatus compares what the command status prints with its file.
func (b *bench) checkStatus(name string) {
	b.t.Helper()
	var text strings.Builder
	if err := status.Write(&text, new(status.New(b.node.Sampler.Latest(), b.now))); err != nil {
		b.t.Fatal(err)
	}
	file := filepath.Join("testdata", name+".status.txt")
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		b.t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
