package unit

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

func TestReadDocker(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "containers", containerID)
	write(t, filepath.Join(dir, "config.v2.json"), `{"ID":"x","Name":"/train","Config":{"Image":"vision:3","Env":["TOKEN=secret"],"Labels":{"com.docker.compose.project":"vision","a":"b"}}}`)
	write(t, filepath.Join(dir, "hostconfig.json"), `{"Memory":5,"DeviceRequests":[{"Driver":"nvidia","Count":0,"DeviceIDs":["GPU-7","0:1"],"Capabilities":[["gpu"]]}]}`)
	got, err := readDocker(root, containerID)
	want := container{manager: Docker, name: "train", image: "vision:3", project: "vision", devices: []gpu.DeviceName{
		{UUID: "GPU-7"}, {Index: new(0), Partition: &gpu.PartitionName{Ordinal: new(1)}},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(container{})); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	write(t, filepath.Join(dir, "config.v2.json"), `{"Name":"secret`)
	if _, err := readDocker(root, containerID); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v, want one without the file's content", err)
	}
}

func TestDeviceRequests(t *testing.T) {
	all := []gpu.DeviceName{{All: true}}
	tests := []struct {
		name, request string
		want          []gpu.DeviceName
	}{
		{"all", `{"Count":-1,"Capabilities":[["gpu"]]}`, all},
		{"a number", `{"Driver":"nvidia","Count":2}`, []gpu.DeviceName{{Index: new(0)}, {Index: new(1)}}},
		{"CDI", `{"Driver":"cdi","DeviceIDs":["nvidia.com/gpu=all","nvidia.com/gpu=1","vendor.com/nic=0"]}`, append(all, gpu.DeviceName{Index: new(1)})},
		{"a MIG device", `{"Driver":"nvidia","DeviceIDs":["MIG-7"]}`, []gpu.DeviceName{{UUID: "MIG-7"}}},
		{"another device", `{"Driver":"other","Count":-1,"Capabilities":[["nic"]]}`, nil},
		{"garbage", `{"Driver":"nvidia","DeviceIDs":["","-1","0:","0:x","0.1","../1"]}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r deviceRequest
			if err := json.Unmarshal([]byte(tt.request), &r); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, r.devices()); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}

// TestVisibleDevices checks the GPUs of containers with NVIDIA's runtime, which reads a variable.
func TestVisibleDevices(t *testing.T) {
	all := []gpu.DeviceName{{All: true}}
	tests := []struct {
		name, host, env string
		want            []gpu.DeviceName
	}{
		{"all", `{"Runtime":"nvidia"}`, `["NVIDIA_VISIBLE_DEVICES=all"]`, all},
		{"a list", `{"Runtime":"nvidia-legacy"}`, `["A=b","NVIDIA_VISIBLE_DEVICES=1,GPU-7,0:1,nvidia.com/gpu=2"]`, []gpu.DeviceName{
			{Index: new(1)}, {UUID: "GPU-7"}, {Index: new(0), Partition: &gpu.PartitionName{Ordinal: new(1)}}, {Index: new(2)},
		}},
		{"none", `{"Runtime":"nvidia"}`, `["NVIDIA_VISIBLE_DEVICES=none"]`, nil},
		{"void", `{"Runtime":"nvidia"}`, `["NVIDIA_VISIBLE_DEVICES=void"]`, nil},
		{"no variable", `{"Runtime":"nvidia"}`, `["NVIDIA_VISIBLE_DEVICES_=all"]`, nil},
		{"an image with the variable in another runtime", `{"Runtime":"runc"}`, `["NVIDIA_VISIBLE_DEVICES=all"]`, nil},
		{"a request as well", `{"Runtime":"nvidia","DeviceRequests":[{"Count":1,"Driver":"nvidia"}]}`, `["NVIDIA_VISIBLE_DEVICES=all"]`, []gpu.DeviceName{{Index: new(0)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "containers", containerID)
			write(t, filepath.Join(dir, "config.v2.json"), `{"Name":"/train","Config":{"Env":`+tt.env+`}}`)
			write(t, filepath.Join(dir, "hostconfig.json"), tt.host)
			c, err := readDocker(root, containerID)
			if diff := cmp.Diff(tt.want, c.devices); diff != "" || err != nil {
				t.Errorf("error %v, devices (-want +got):\n%s", err, diff)
			}
		})
	}
}

// FuzzDocker checks that no file of a container crashes the exporter or yields an invalid name.
func FuzzDocker(f *testing.F) {
	f.Add([]byte(`{"Name":"/x"}`), []byte(`{"DeviceRequests":[{"Count":-1,"Driver":"nvidia"}]}`))
	f.Fuzz(func(t *testing.T, config, host []byte) {
		root := t.TempDir()
		dir := filepath.Join(root, "containers", containerID)
		write(t, filepath.Join(dir, "config.v2.json"), string(config))
		write(t, filepath.Join(dir, "hostconfig.json"), string(host))
		c, err := readDocker(root, containerID)
		if err == nil && !json.Valid(config) {
			t.Errorf("name %q from invalid JSON", c.name)
		}
	})
}
