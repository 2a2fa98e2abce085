// Gen writes the files in manifests/ that hold the exporter's container, and those that
// hold the rules and dashboards: kustomize reads nothing outside its own folder.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/deploy"
)

const header = "# Written by go generate ./internal/deploy. Do not edit.\n"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gen <folder of manifests> <folder of dashboards>")
		os.Exit(2)
	}
	manifests, dashboards := os.Args[1], os.Args[2]
	err := errors.Join(
		write(manifests),
		component(filepath.Join(manifests, "components/rules"), filepath.Join(dashboards, "rules/*.yaml"), deploy.Rules),
		component(filepath.Join(manifests, "components/dashboards"), filepath.Join(dashboards, "*.json"), dashboard),
	)
	if err != nil {
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
			err = save(filepath.Join(folder, name), text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func dashboard(name string, file []byte) ([]byte, error) {
	return deploy.YAML(deploy.Dashboard(name, file))
}

// component makes a kustomize component of files, with one object for each that object
// returns. What an earlier run wrote is removed.
func component(folder, pattern string, object func(name string, file []byte) ([]byte, error)) error {
	files, err := filepath.Glob(pattern)
	if err == nil {
		err = errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755))
	}
	if err != nil {
		return err
	}
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		text, err := os.ReadFile(file)
		if err == nil {
			text, err = object(name, text)
		}
		if err == nil {
			names = append(names, name+".yaml")
			err = save(filepath.Join(folder, name+".yaml"), text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	text, err := deploy.Component("gpuledger-"+filepath.Base(folder), names)
	if err != nil {
		return err
	}
	return save(filepath.Join(folder, "kustomization.yaml"), text)
}

func save(file string, text []byte) error {
	return os.WriteFile(file, slices.Concat([]byte(header), text), 0o644)
}
