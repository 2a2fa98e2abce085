// Build writes an image that the Dockerfile defines as an OCI archive:
//
//	build TARGET TAG REVISION FILE ARCH=PROGRAMS...
//
// It runs in the root of the repository. PROGRAMS is the folder with the programs for an
// architecture. For the exporter, this folder also contains root-filesystem, the output of
// tools/image/libc. $SOURCE_DATE_EPOCH sets the creation time of the image.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/oci"
)

func main() {
	if len(os.Args) < 6 {
		fmt.Fprintln(os.Stderr, "usage: build TARGET TAG REVISION FILE ARCH=PROGRAMS...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5:]); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(target, tag, revision, file string, architectures []string) error {
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil {
		return err
	}
	stage, err := oci.ParseStage(string(dockerfile), target, map[string]string{"VERSION": tag, "REVISION": revision})
	if err != nil {
		return err
	}
	var images []oci.Image
	for _, a := range architectures {
		arch, programs, _ := strings.Cut(a, "=")
		images = append(images, oci.Image{Architecture: arch, Path: oci.Source(".", programs)})
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := oci.WriteArchive(out, stage, images, tag, time.Unix(epoch, 0)); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return out.Close()
}
