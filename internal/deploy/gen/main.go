// Gen writes the files in manifests/ that hold the exporter's container.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuledger/gpuledger/internal/deploy"
)

const header = "# Written by go generate ./internal/deploy. Do not edit.\n"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen <folder>")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	release, err := deploy.HelmRelease()
	if err != nil {
		return err
	}
	files := map[string][]any{
		"components/exporter/daemonset.yaml": {deploy.DaemonSet()},
		"base/injection/policy.yaml":         {deploy.Policy(), deploy.Binding()},
		"components/sidecar/pod.yaml":        {deploy.PodPatch()},
		"components/sidecar/container.yaml":  {deploy.ContainerPatch()},
		"components/web-config/patch.yaml":   {deploy.WebPatch("gpuledger-web")},
		"examples/flux/helmrelease.yaml":     {release},
	}
	for name, documents := range files {
		text, err := deploy.YAML(documents...)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), append([]byte(header), text...), 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
