package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds our programs in cmd into a folder, with the same flags as for a release. The exporter and the
// simulated node bind the driver's functions lazily. The other programs need no C compiler. See the Makefile.
func Build(ctx context.Context, dir string, names ...string) error {
	for _, name := range names {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -extldflags=-Wl,-z,lazy",
			"-o", filepath.Join(dir, name), "github.com/gpuledger/gpuledger/cmd/"+name)
		build.Env = os.Environ()
		if name != "gpuledger" && name != "simnode" {
			build.Env = append(build.Env, "CGO_ENABLED=0")
		}
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", build.Args, err, out)
		}
	}
	return nil
}
