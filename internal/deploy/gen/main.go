// Gen writes the files in manifests/ that contain the exporter's container or the rules. The rules become objects of
// the Prometheus operator. Gen also writes the schema and the table of the Helm chart's values.
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
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: gen <folder of manifests> <folder of rules> <folder of the chart>")
		os.Exit(2)
	}
	manifests, folder := os.Args[1], os.Args[2]
	if err := errors.Join(write(manifests), rules(filepath.Join(manifests, "components/rules"), folder), chart(os.Args[3])); err != nil {
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
		"components/exporter/daemonset.yaml":   {deploy.DaemonSet()},
		"base/injection/policy.yaml":           {deploy.Policy(), deploy.Binding()},
		"components/webhook/copy/webhook.yaml": {deploy.Webhook()},
		"components/sidecar/pod.yaml":          {deploy.PodPatch()},
		"components/sidecar/container.yaml":    {deploy.ContainerPatch()},
		"components/web-config/patch.yaml":     {deploy.WebPatch("gpuledger-web")},
		"examples/flux/helmrelease.yaml":       {release},
		"examples/kyverno/mutatingpolicy.yaml": {deploy.Kyverno("gpu-operator")},
	}
	for host, patch := range deploy.HostPatches() {
		files["components/host-"+host+"/patch.yaml"] = []any{patch}
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

// rules writes the kustomize component for the rules in a folder. The component contains one object for each file with
// rules. Before it writes, it removes the files of earlier runs.
func rules(component, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err == nil {
		err = errors.Join(os.RemoveAll(component), os.MkdirAll(component, 0o755))
	}
	if err != nil {
		return err
	}
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		text, err := os.ReadFile(file)
		if err == nil {
			text, err = deploy.Rules(name, text)
		}
		if err == nil {
			names = append(names, name+".yaml")
			err = save(filepath.Join(component, name+".yaml"), text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	text, err := deploy.Component("gpuledger-rules", names)
	if err != nil {
		return err
	}
	return save(filepath.Join(component, "kustomization.yaml"), text)
}

const tableMark = "<!-- The rest is written by go generate ./internal/deploy from values.yaml. -->\n"

// chart writes the schema of the chart's values. At the end of the README, it writes the table of these values.
func chart(folder string) error {
	text, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	if err != nil {
		return err
	}
	values, err := deploy.Values(text)
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	schema, err := deploy.Schema(values)
	if err != nil {
		return err
	}
	readme := filepath.Join(folder, "README.md")
	if text, err = os.ReadFile(readme); err != nil {
		return err
	}
	before, _, ok := strings.Cut(string(text), tableMark)
	if !ok {
		return fmt.Errorf("%s: line missing: %s", readme, tableMark)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "values.schema.json"), schema, 0o644),
		os.WriteFile(readme, []byte(before+tableMark+"\n"+deploy.ValuesTable(values)), 0o644))
}

func save(file string, text []byte) error {
	return os.WriteFile(file, slices.Concat([]byte(header), text), 0o644)
}
