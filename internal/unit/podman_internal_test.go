package unit

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

func TestReadPodman(t *testing.T) {
	root, run := t.TempDir(), t.TempDir()
	write(t, filepath.Join(root, "overlay-containers/containers.json"), `[{"id":"1","names":["a","b"],"metadata":"{\"image-name\":\"docker.io/library/a:1\"}"},{"id":"2"}]`)
	write(t, filepath.Join(run, "overlay-containers/volatile-containers.json"), `[{"id":"3","names":["c"]}]`)
	got, err := readPodman([]string{root, run})
	want := map[string]container{"1": {manager: Podman, name: "a", image: "docker.io/library/a:1"}, "3": {manager: Podman, name: "c"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(container{})); diff != "" || err != nil {
		t.Errorf("error %v, containers (-want +got):\n%s", err, diff)
	}
	if _, err := readPodman([]string{t.TempDir()}); err == nil {
		t.Error("no error without any file")
	}
}

// TestPodmanDevices checks the GPUs in a container's configuration for its runtime.
func TestPodmanDevices(t *testing.T) {
	const driver = `{"path":"/dev/nvidiactl","type":"c","major":195,"minor":255},{"path":"/dev/nvidia-uvm","type":"c","major":235,"minor":0}`
	const mig = `{"path":"/dev/nvidia0","major":195,"minor":0},{"path":"/dev/nvidia-caps/nvidia-cap21","major":238,"minor":21},{"path":"/dev/nvidia-caps/nvidia-cap22","major":238,"minor":22}`
	procFS := t.TempDir()
	write(t, filepath.Join(procFS, "driver/nvidia-caps/mig-minors"),
		"config 1\nmonitor 2\ngpu0/gi0/access 3\ngpu0/gi0/ci0/access 4\ngpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\n")
	tests := []struct {
		name, spec string
		want       []gpu.DeviceName
	}{
		{"no device", `{"linux":{}}`, nil},
		{
			"two GPUs", `{"linux":{"devices":[` + driver + `,{"path":"/dev/nvidia0","type":"c","major":195,"minor":0},{"path":"/dev/nvidia3","type":"c","major":195,"minor":3}]}}`,
			[]gpu.DeviceName{{Node: "nvidia0"}, {Node: "nvidia3"}},
		},
		{"under another name", `{"linux":{"devices":[{"path":"/dev/gpu","major":195,"minor":5}]}}`, []gpu.DeviceName{{Node: "nvidia5"}}},
		{
			"a MIG device", `{"linux":{"devices":[` + driver + `,` + mig + `]}}`,
			[]gpu.DeviceName{{Node: "nvidia0", Partition: &gpu.PartitionName{Instance: "2"}}},
		},
		{
			"a MIG device and a GPU", `{"linux":{"devices":[{"path":"/dev/nvidia3","major":195,"minor":3},` + mig + `]}}`,
			[]gpu.DeviceName{{Node: "nvidia3"}, {Node: "nvidia0", Partition: &gpu.PartitionName{Instance: "2"}}},
		},
		{
			"an unknown right", `{"linux":{"devices":[{"path":"/dev/nvidia-caps/nvidia-cap999","major":238,"minor":999}]}}`, nil,
		},
		{
			"the rights of all MIG devices", `{"linux":{"devices":[{"path":"/dev/nvidia0","major":195,"minor":0},{"path":"/dev/nvidia-caps/nvidia-cap1","major":238,"minor":1}]}}`,
			[]gpu.DeviceName{{Node: "nvidia0"}},
		},
		{
			"NVIDIA's hook", `{"process":{"env":["TOKEN=secret","NVIDIA_VISIBLE_DEVICES=1"]},"hooks":{"prestart":[{"path":"/usr/bin/nvidia-container-runtime-hook"}]}}`,
			[]gpu.DeviceName{{Index: new(1)}},
		},
		{"the variable without the hook", `{"process":{"env":["NVIDIA_VISIBLE_DEVICES=all"]}}`, nil},
		{"a disk", `{"linux":{"devices":[{"path":"/dev/sda","major":8,"minor":0}]}}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, filepath.Join(root, "overlay-containers", containerID, "userdata/config.json"), tt.spec)
			got, err := readPodmanDevices([]string{t.TempDir(), root}, containerID, procFS)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("error %v, devices (-want +got):\n%s", err, diff)
			}
		})
	}
	root := t.TempDir()
	write(t, filepath.Join(root, "overlay-containers", containerID, "userdata/config.json"), `{"linux":{"devices":[`+mig+`]}}`)
	if got, err := readPodmanDevices([]string{root}, containerID, t.TempDir()); got != nil || err == nil {
		t.Errorf("devices %v and error %v of a MIG device without the driver's list, want an error", got, err)
	}
	if got, err := readPodmanDevices([]string{t.TempDir()}, containerID, procFS); got != nil || err != nil {
		t.Errorf("devices %v and error %v without the file, want neither", got, err)
	}
}

// FuzzRuntimeSpec checks that no file crashes the exporter or appears in its error.
func FuzzRuntimeSpec(f *testing.F) {
	f.Add([]byte(`{"linux":{"devices":[{"path":"/dev/nvidia0","major":195,"minor":0}]}}`))
	f.Add([]byte(`{"process":{"env":["NVIDIA_VISIBLE_DEVICES=all"]},"hooks":{"prestart":[{"path":"nvidia-container-toolkit"}]}}`))
	f.Fuzz(func(t *testing.T, spec []byte) {
		root := t.TempDir()
		write(t, filepath.Join(root, "overlay-containers", containerID, "userdata/config.json"), string(spec))
		list, err := readPodmanDevices([]string{root}, containerID, t.TempDir())
		if err == nil && !json.Valid(spec) || len(list) > maxHeldLines {
			t.Errorf("%d devices and error %v", len(list), err)
		}
		if err != nil && len(spec) > 20 && strings.Contains(err.Error(), string(spec)) {
			t.Error("the error has the file's content")
		}
	})
}
