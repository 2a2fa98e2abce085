package unit

import (
	"encoding/json"
	"math"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

func TestReadPodman(t *testing.T) {
	root, run := t.TempDir(), t.TempDir()
	write(t, filepath.Join(root, "overlay-containers/containers.json"), `[{"id":"1","names":["a","b"],"metadata":"{\"image-name\":\"docker.io/library/a:1\"}"},{"id":"2"}]`)
	write(t, filepath.Join(run, "overlay-containers/volatile-containers.json"), `[{"id":"3","names":["c"]},{"id":"5","names":["not requested"]}]`)
	got, err := readPodman([]string{root, run}, map[string]string{"1": Podman, "2": Podman, "3": Podman, "4": Podman})
	want := map[string]container{"1": {manager: Podman, name: "a", image: "docker.io/library/a:1"}, "3": {manager: Podman, name: "c"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(container{})); diff != "" || err != nil {
		t.Errorf("error %v, containers (-want +got):\n%s", err, diff)
	}
	if _, err := readPodman([]string{t.TempDir()}, nil); err == nil {
		t.Error("there is no error although no file exists")
	}
}

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
			"an unknown capability", `{"linux":{"devices":[{"path":"/dev/nvidia-caps/nvidia-cap999","major":238,"minor":999}]}}`, nil,
		},
		{
			"the capabilities of all MIG devices", `{"linux":{"devices":[{"path":"/dev/nvidia0","major":195,"minor":0},{"path":"/dev/nvidia-caps/nvidia-cap1","major":238,"minor":1}]}}`,
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

// FuzzRuntimeSpec checks that no file crashes the exporter, and that errors do not contain the file's content.
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
			t.Error("the error contains the file's content")
		}
	})
}

// FuzzPodmanList checks that no list crashes the exporter, and that all accepted names are valid.
func FuzzPodmanList(f *testing.F) {
	f.Add([]byte(`[{"id":"1","names":["a","b"],"metadata":"{\"image-name\":\"a:1\"}"},{}]`))
	f.Add([]byte(`[{"id":"1","names":["\u001b"],"flags":{"a":[{}]}},null]`))
	f.Fuzz(func(t *testing.T, list []byte) {
		root := t.TempDir()
		write(t, filepath.Join(root, "overlay-containers/containers.json"), string(list))
		all, err := readPodman([]string{root}, map[string]string{"1": Podman})
		if err == nil && !json.Valid(list) || len(all) > 1 {
			t.Errorf("%d containers and error %v", len(all), err)
		}
		for _, c := range all {
			checkTexts(t, c.checked())
		}
	})
}

// TestHostileFiles checks how much memory the exporter needs to read hostile files. The files have the maximum size and
// as many list elements as possible. If the exporter decoded a whole file in one step, an empty element would need up
// to thirty times its size in memory.
func TestHostileFiles(t *testing.T) {
	many := func(limit int, before, element, after string) string {
		return before + strings.Repeat(element+",", (limit-len(before)-len(after)-len(element))/(len(element)+1)) + element + after
	}
	const file, list = 1 << 20, 4 << 20
	type prepare func(root string) (read func() error) // writes the files
	docker := func(config, host string) prepare {
		return func(root string) func() error {
			dir := filepath.Join(root, "containers", containerID)
			write(t, filepath.Join(dir, "config.v2.json"), config)
			write(t, filepath.Join(dir, "hostconfig.json"), host)
			return func() error { _, err := readDocker(root, containerID); return err }
		}
	}
	podman := func(text string) prepare {
		return func(root string) func() error {
			write(t, filepath.Join(root, "overlay-containers/containers.json"), text)
			return func() error { _, err := readPodman([]string{root}, map[string]string{"1": Podman}); return err }
		}
	}
	spec := func(text string) prepare {
		return func(root string) func() error {
			write(t, filepath.Join(root, "overlay-containers", containerID, "userdata/config.json"), text)
			return func() error { _, err := readPodmanDevices([]string{root}, containerID, ""); return err }
		}
	}
	tests := map[string]prepare{
		"device requests":          docker(`{}`, many(file, `{"DeviceRequests":[`, `{}`, `]}`)),
		"GPUs":                     docker(`{}`, many(file, `{"DeviceRequests":[`, `{"Driver":"nvidia","Count":64}`, `]}`)),
		"capabilities":             docker(`{}`, many(file, `{"DeviceRequests":[{"Capabilities":[`, `[]`, `]}]}`)),
		"device ids":               docker(`{}`, many(file, `{"DeviceRequests":[{"DeviceIDs":[`, `""`, `]}]}`)),
		"variables":                docker(many(file, `{"Config":{"Env":[`, `""`, `]}}`), `{}`),
		"unknown field":            docker(`{}`, many(file, `{"a":[`, `{}`, `]}`)),
		"rows":                     podman(many(list, `[`, `{}`, `]`)),
		"rows with a name":         podman(many(list, `[`, `{"id":"1","names":["a"]}`, `]`)),
		"rows of other containers": podman(many(list, `[`, `{"id":"2","names":["a"]}`, `]`)),
		"names":                    podman(many(list, `[{"names":[`, `""`, `]}]`)),
		"devices":                  spec(many(file, `{"linux":{"devices":[`, `{}`, `]}}`)),
		"hooks":                    spec(many(file, `{"hooks":{"prestart":[`, `{}`, `]}}`)),
		"variables of a pod":       spec(many(file, `{"process":{"env":[`, `""`, `]}}`)),
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			read := prepare(t.TempDir())
			const limit = 8 << 20
			peak := int64(math.MaxInt64)
			for range 3 { // objects allocated during a garbage collection count as live, and a busy machine collects slowly
				peak = min(peak, peakHeap(func() {
					if err := read(); err != nil {
						t.Error(err)
					}
				}))
				if peak <= limit {
					break
				}
			}
			t.Logf("%d KiB", peak>>10)
			if peak > limit {
				t.Errorf("%d KiB of memory in use at the peak", peak>>10)
			}
		})
	}
}

func peakHeap(do func()) (peak int64) {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}} // size after the last garbage collection
	metrics.Read(live)
	before := int64(live[0].Value.Uint64())
	done := make(chan struct{})
	go func() { do(); close(done) }()
	for {
		select {
		case <-done:
			return peak
		case <-time.After(time.Millisecond):
			metrics.Read(live)
			peak = max(peak, int64(live[0].Value.Uint64())-before)
		}
	}
}
