package unit

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

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
		t.Errorf("error %v, want an error without the file's content", err)
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
			r, err := readDeviceRequest(newDocument(strings.NewReader(tt.request)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, r.devices()); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}

// TestVisibleDevices checks the GPUs of containers with NVIDIA's runtime, which reads the GPUs from an environment
// variable.
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
		{"an image with the variable, but another runtime", `{"Runtime":"runc"}`, `["NVIDIA_VISIBLE_DEVICES=all"]`, nil},
		{"the variable and a request", `{"Runtime":"nvidia","DeviceRequests":[{"Count":1,"Driver":"nvidia"}]}`, `["NVIDIA_VISIBLE_DEVICES=all"]`, []gpu.DeviceName{{Index: new(0)}}},
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

// FuzzDocker checks that no file about a container crashes the exporter or gives the container an invalid name.
func FuzzDocker(f *testing.F) {
	f.Add([]byte(`{"Name":"/x"}`), []byte(`{"DeviceRequests":[{"Count":-1,"Driver":"nvidia"}]}`))
	f.Add([]byte(`{"Config":{"Image":"\u001b[2J","Labels":{"com.docker.compose.project":"a\nb"}}}`), []byte(`{"DeviceRequests":null,"a":[[{"b":[1]}]]}`))
	f.Fuzz(func(t *testing.T, config, host []byte) {
		root := t.TempDir()
		dir := filepath.Join(root, "containers", containerID)
		write(t, filepath.Join(dir, "config.v2.json"), string(config))
		write(t, filepath.Join(dir, "hostconfig.json"), string(host))
		c, err := readDocker(root, containerID)
		if err == nil && (!json.Valid(config) || !json.Valid(host)) {
			t.Errorf("the name %q was read from invalid JSON", c.name)
		}
		if len(c.devices) > maxHeldLines {
			t.Errorf("%d devices", len(c.devices))
		}
		checkTexts(t, c.checked())
	})
}

func checkTexts(t *testing.T, c container) {
	t.Helper()
	for _, text := range []string{c.name, c.image, c.project} {
		if len(text) > 255 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("text %q", text)
		}
	}
}

func TestContainerTexts(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain", "registry.example:5000/vision:3", "registry.example:5000/vision:3"},
		{"escape", "a\x1b[2J", ""},
		{"bidirectional mark", "a\u202eb", ""},
		{"line", "a\nb", ""},
		{"long", strings.Repeat("a", 256), ""},
		{"longest", strings.Repeat("a", 255), strings.Repeat("a", 255)},
		{"not UTF-8", "a\xff", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := container{name: tt.want, image: tt.want, project: tt.want}
			if got := (container{name: tt.text, image: tt.text, project: tt.text}).checked(); !cmp.Equal(got, want, cmp.AllowUnexported(container{})) {
				t.Errorf("checked = %+v, want %+v", got, want)
			}
		})
	}
}

func TestContainerFilesAreSmall(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "containers", containerID)
	write(t, filepath.Join(dir, "config.v2.json"), `{"Name":"/x"}`)
	tests := []struct{ name, host, want string }{
		{"large", `{"a":"` + strings.Repeat("a", 1<<20) + `"}`, "more than 1048576 bytes"},
		{"deep", `{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, "invalid JSON or unexpected types"},
		{"type", `{"Runtime":1}`, "invalid JSON or unexpected types"},
		{"two values", `{} {}`, "invalid JSON or unexpected types"},
		{"cut", `{"a":[`, "invalid JSON or unexpected types"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write(t, filepath.Join(dir, "hostconfig.json"), tt.host)
			if _, err := readDocker(root, containerID); err == nil || !strings.HasSuffix(err.Error(), tt.want) && !strings.Contains(err.Error(), tt.want+": ") {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
