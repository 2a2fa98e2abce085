//go:build e2e

// Toolkit is a container runtime that replaces NVIDIA's container toolkit. It adds the driver's library to every
// container that has the variable NVIDIA_VISIBLE_DEVICES, and then runs runc. The library is the fake driver. The
// library and its state are in this program's folder.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "toolkit:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if i := slices.Index(args, "--bundle"); i > 0 && slices.Contains(args, "create") {
		if err := change(filepath.Join(args[i+1], "config.json")); err != nil {
			return err
		}
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return err
	}
	return syscall.Exec(runc, append([]string{"runc"}, args[1:]...), os.Environ())
}

// The configuration is in the format of the OCI runtime specification.
func change(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var container map[string]any
	if err := json.Unmarshal(text, &container); err != nil {
		return err
	}
	environment, _, errEnvironment := unstructured.NestedStringSlice(container, "process", "env")
	mounts, _, errMounts := unstructured.NestedSlice(container, "mounts")
	if err := errors.Join(errEnvironment, errMounts); err != nil || !wantsGPUs(environment) {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	driver := filepath.Dir(self)
	const library = "/libnvidia-ml.so.1"
	mounts = append(mounts, mount(driver, driver), mount(driver+library, "/usr/lib"+library))
	environment = append(environment, "GPULEDGER_FAKE_NVML_STATE="+driver+"/driver.tsv")
	if err := errors.Join(
		unstructured.SetNestedStringSlice(container, environment, "process", "env"),
		unstructured.SetNestedSlice(container, mounts, "mounts"),
	); err != nil {
		return err
	}
	if text, err = json.Marshal(container); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

func mount(from, to string) map[string]any {
	return map[string]any{"source": from, "destination": to, "type": "bind", "options": []any{"bind", "ro"}}
}

func wantsGPUs(environment []string) bool {
	for _, v := range environment {
		if devices, ok := strings.CutPrefix(v, "NVIDIA_VISIBLE_DEVICES="); ok {
			return devices != "" && devices != "void" && devices != "none"
		}
	}
	return false
}
