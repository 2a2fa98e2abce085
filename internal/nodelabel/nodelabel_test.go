package nodelabel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/nodelabel"
)

// machine returns a page with n equal GPUs in the order of their PCI addresses. edit changes each GPU.
func machine(n int, edit func(i int, g *inventory.GPU)) inventory.Page {
	p := inventory.Page{Version: inventory.Version, DriverUp: true, Node: gpu.Node{ChassisSerial: "DMI-7", SystemUUID: "4c4c4544-0051"}}
	for i := range n {
		g := inventory.GPU{Present: true, Device: gpu.Device{
			UUID: fmt.Sprintf("GPU-%02d", i), Index: i,
			PCIBusID: fmt.Sprintf("00000000:%02X:00.0", 0x10+i), Serial: fmt.Sprintf("16539240208%02d", i),
		}}
		if edit != nil {
			edit(i, &g)
		}
		p.GPUs = append(p.GPUs, g)
	}
	return p
}

// gb200 returns the page of a compute tray with four GPUs on two boards. Its chassis contains nine Nodes.
func gb200() inventory.Page {
	return machine(4, func(i int, g *inventory.GPU) {
		g.Serial = []string{"1761125340953", "1761025346615"}[i/2]
		g.Platform = gpu.Platform{ChassisSerial: "1821225190819", Slot: new(14), Tray: new(5), ModuleID: new(4 - i)}
	})
}

func serials(n int, first int) map[string]string {
	m := map[string]string{"gpu-count": fmt.Sprint(n)}
	for i := range n {
		m[fmt.Sprintf("gpu-%d", i)] = fmt.Sprintf("16539240208%02d", first+i)
	}
	return m
}

// with changes labels. An empty value removes a label.
func with(m map[string]string, pairs ...string) map[string]string {
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
		if pairs[i+1] == "" {
			delete(m, pairs[i])
		}
	}
	return m
}

func TestOwn(t *testing.T) {
	long := strings.Repeat("Serial-7", 8)
	tests := []struct {
		name  string
		rules nodelabel.Rules
		page  inventory.Page
		want  map[string]string
	}{
		{name: "H100, no chassis", page: machine(8, nil), want: serials(8, 0)},
		{name: "H100, fallback for the chassis", rules: nodelabel.Rules{ChassisFallback: "none-{node}"}, page: machine(8, nil), want: with(serials(8, 0), "chassis", "none-gpu-node-17")},
		{name: "H100, chassis from DMI", rules: nodelabel.Rules{DMIChassis: true}, page: machine(8, nil), want: with(serials(8, 0), "dmi-chassis", "DMI-7")},
		{name: "GB200", rules: nodelabel.Rules{ChassisFallback: "none"}, page: gb200(), want: map[string]string{
			"gpu-0": "1761125340953", "gpu-1": "1761125340953", "gpu-2": "1761025346615", "gpu-3": "1761025346615", "gpu-count": "4",
			"chassis": "1821225190819", "chassis-slot": "14", "chassis-tray": "5",
		}},
		{name: "one missing serial number", page: machine(8, func(i int, g *inventory.GPU) {
			if i == 3 {
				g.Serial = ""
			}
		}), want: with(serials(8, 0), "gpu-3", "")},
		{name: "invalid serial numbers", page: machine(4, func(i int, g *inventory.GPU) {
			g.Serial = []string{"N/A", "0000000000000", "unknown", "!?"}[i]
		}), want: map[string]string{"gpu-count": "4"}},
		{name: "illegal characters", page: machine(3, func(i int, g *inventory.GPU) {
			g.Serial = []string{"GPU-123/456", "!@#valid123$%^", "Ünï.1"}[i]
		}), want: map[string]string{"gpu-0": "GPU-123-456", "gpu-1": "valid123", "gpu-2": "n-.1", "gpu-count": "3"}},
		{name: "63 and 64 characters", page: machine(2, func(i int, g *inventory.GPU) { g.Serial = long[i:] }), want: map[string]string{
			"gpu-0": long[:46] + "-797c007fbe359705", "gpu-1": long[1:], "gpu-count": "2",
		}},
		{name: "sixteen", page: machine(16, nil), want: serials(16, 0)},
		{name: "none", rules: nodelabel.Rules{ChassisFallback: "none"}, page: machine(0, nil)},
		{name: "one lost", page: machine(8, func(i int, g *inventory.GPU) { g.Present = i != 2 }), want: with(serials(8, 0), "gpu-count", "7")},
		{name: "all lost", page: machine(8, func(_ int, g *inventory.GPU) { g.Present = false }), want: with(serials(8, 0), "gpu-count", "0")},
		{name: "one swapped", page: machine(8, func(i int, g *inventory.GPU) {
			if i == 2 {
				g.UUID, g.Serial = "GPU-new", "0000000000017"
			}
		}), want: with(serials(8, 0), "gpu-2", "0000000000017")},
		{name: "in the order of the driver", page: machine(8, func(i int, g *inventory.GPU) {
			g.PCIBusID, g.Serial = fmt.Sprintf("00000000:%02X:00.0", 0x20-i), fmt.Sprintf("16539240208%02d", 7-i)
		}), want: serials(8, 0)},
		{name: "MIG", page: machine(2, func(_ int, g *inventory.GPU) {
			g.Partitions = &gpu.Partitioning{Slices: 7, Instances: []gpu.Partition{{ID: "1", Profile: "3g.40gb"}}}
		}), want: serials(2, 0)},
		{name: "two chassis result in no label", page: machine(2, func(i int, g *inventory.GPU) {
			g.Platform = gpu.Platform{ChassisSerial: fmt.Sprint("chassis", i), Slot: new(i), Tray: new(3)}
		}), want: with(serials(2, 0), "chassis-tray", "3")},
		{name: "a GPU with an unknown chassis, after one with a known chassis", page: machine(3, func(i int, g *inventory.GPU) {
			if i == 0 {
				g.Platform.ChassisSerial = "1821225190819"
			}
		}), want: with(serials(3, 0), "chassis", "1821225190819")},
		{name: "all legal characters", page: machine(1, func(_ int, g *inventory.GPU) { g.Serial = "az_AZ-09.z" }), want: map[string]string{
			"gpu-0": "az_AZ-09.z", "gpu-count": "1",
		}},
		{name: "a GPU that reports no chassis", page: machine(2, func(i int, g *inventory.GPU) {
			if i == 1 {
				g.Platform.ChassisSerial = "1821225190819"
			}
		}), want: with(serials(2, 0), "chassis", "1821225190819")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.rules.Scheme, tt.rules.Prefix = nodelabel.Own, "gpuledger.io"
			compare(t, tt.rules, tt.page, tt.want)
		})
	}
}

func TestGPUID(t *testing.T) {
	place := func(chassis, serial []string) inventory.Page {
		return machine(len(serial), func(i int, g *inventory.GPU) { g.Platform.ChassisSerial, g.Serial = chassis[i], serial[i] })
	}
	tests := []struct {
		name string
		page inventory.Page
		want map[string]string
	}{
		{"H100, by serial", machine(3, func(i int, g *inventory.GPU) {
			g.Platform.ChassisSerial, g.Serial = "N/A", []string{"30", "10", "20"}[i]
		}), map[string]string{"gpu-0": "10", "gpu-1": "20", "gpu-2": "30"}},
		{"H100, as the library returns it", machine(2, nil), map[string]string{"gpu-0": "1653924020800", "gpu-1": "1653924020801"}},
		{"GB200", gb200(), map[string]string{"chassis": "1821225190819", "chassis-count": "1", "gpu-0": "1761025346615", "gpu-1": "1761125340953"}},
		{"two chassis", place([]string{"chassis2", "chassis1", "chassis1"}, []string{"gpu0", "gpu0", "gpu1"}), map[string]string{
			"chassis-0": "chassis1", "chassis-0-gpu-0": "gpu0", "chassis-0-gpu-1": "gpu1",
			"chassis-1": "chassis2", "chassis-1-gpu-0": "gpu0", "chassis-count": "2",
		}},
		{"one known chassis", place([]string{"N/A", "N/A", "1821"}, []string{"A1", "A2", "B1"}), map[string]string{
			"chassis-0": "1821", "chassis-0-gpu-0": "B1", "chassis-count": "1", "gpu-0": "A1", "gpu-1": "A2",
		}},
		{"unknown is sorted first", place([]string{"Z1", ""}, []string{"A1", "B1"}), map[string]string{
			"chassis-1": "Z1", "chassis-1-gpu-0": "A1", "chassis-count": "1", "gpu-0": "B1",
		}},
		{"empty and N/A are the same", place([]string{"", "N/A", "!"}, []string{"1", "2", "3"}), map[string]string{"gpu-0": "1", "gpu-1": "2", "gpu-2": "3"}},
		{"serial N/A", place([]string{""}, []string{"N/A"}), map[string]string{"gpu-0": "na"}},
		{"serial unknown", place([]string{"", ""}, []string{"", ""}), map[string]string{"gpu-0": "na"}},
		{"zeros", place([]string{""}, []string{"0000000000000"}), map[string]string{"gpu-0": "0000000000000"}},
		{"illegal", place([]string{"", "", ""}, []string{"GPU-123/456", "!@#valid123$%^", "1234.5678"}), map[string]string{
			"gpu-0": "valid123", "gpu-1": "1234.5678", "gpu-2": "GPU-123-456",
		}},
		{"a lost GPU is omitted", machine(2, func(i int, g *inventory.GPU) { g.Present = i == 0 }), map[string]string{"gpu-0": "1653924020800"}},
		{"none", machine(0, nil), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			compare(t, nodelabel.Rules{Scheme: nodelabel.GPUID, Prefix: nodelabel.GPUIDPrefix, ChassisFallback: "none", DMIChassis: true}, tt.page, tt.want)
		})
	}
}

func compare(t *testing.T, rules nodelabel.Rules, page inventory.Page, want map[string]string) {
	t.Helper()
	if err := rules.Validate(); err != nil {
		t.Fatal(err)
	}
	var prefixed map[string]string
	if want != nil {
		prefixed = make(map[string]string)
	}
	for name, value := range want {
		prefixed[rules.Prefix+"/"+name] = value
	}
	got := rules.Desired("gpu-node-17", page)
	if diff := cmp.Diff(prefixed, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if len(page.GPUs) == 0 != got.Equal(nodelabel.Desired{}) || len(page.GPUs) == 0 != (got.Annotations == nil) {
		t.Errorf("labels and annotations of %d GPUs: %v, want none without GPUs", len(page.GPUs), got)
	}
}

func TestAnnotation(t *testing.T) {
	tests := []struct {
		name string
		page inventory.Page
		want string
	}{
		{"GB200", gb200(), `{"v":1,"chassis":"1821225190819","slot":14,"tray":5,"dmi_chassis":"DMI-7","gpus":[` +
			`{"uuid":"GPU-00","serial":"1761125340953","pci":"00000000:10:00.0","module":4},` +
			`{"uuid":"GPU-01","serial":"1761125340953","pci":"00000000:11:00.0","module":3},` +
			`{"uuid":"GPU-02","serial":"1761025346615","pci":"00000000:12:00.0","module":2},` +
			`{"uuid":"GPU-03","serial":"1761025346615","pci":"00000000:13:00.0","module":1}]}`},
		{"two slots in one chassis", machine(2, func(i int, g *inventory.GPU) {
			g.Serial, g.Platform = "", gpu.Platform{ChassisSerial: "c", Slot: new(i), Tray: new(3)}
		}), `{"v":1,"dmi_chassis":"DMI-7","gpus":[` +
			`{"uuid":"GPU-00","pci":"00000000:10:00.0","chassis":"c","slot":0,"tray":3},` +
			`{"uuid":"GPU-01","pci":"00000000:11:00.0","chassis":"c","slot":1,"tray":3}]}`},
		{"two trays in one slot", machine(2, func(i int, g *inventory.GPU) {
			g.Serial, g.Platform = "", gpu.Platform{ChassisSerial: "c", Slot: new(3), Tray: new(i)}
		}), `{"v":1,"dmi_chassis":"DMI-7","gpus":[` +
			`{"uuid":"GPU-00","pci":"00000000:10:00.0","chassis":"c","slot":3,"tray":0},` +
			`{"uuid":"GPU-01","pci":"00000000:11:00.0","chassis":"c","slot":3,"tray":1}]}`},
		{"raw values and a lost GPU", machine(2, func(i int, g *inventory.GPU) {
			g.Serial, g.Present, g.Platform.ChassisSerial = "<N/A>", i == 0, fmt.Sprint("c", i)
		}), `{"v":1,"dmi_chassis":"DMI-7","gpus":[` +
			`{"uuid":"GPU-00","serial":"<N/A>","pci":"00000000:10:00.0","chassis":"c0"},` +
			`{"uuid":"GPU-01","serial":"<N/A>","pci":"00000000:11:00.0","chassis":"c1","lost":true}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := nodelabel.Rules{Scheme: nodelabel.Own, Prefix: nodelabel.OwnPrefix}.Desired("n", tt.page).Annotations
			if diff := cmp.Diff(map[string]string{"gpuledger.io/inventory": tt.want}, got); diff != "" {
				t.Errorf("annotation (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnnotationIsCut checks that an annotation without room for all GPUs contains the number of omitted GPUs.
func TestAnnotationIsCut(t *testing.T) {
	page := machine(64, func(i int, g *inventory.GPU) { g.UUID = fmt.Sprintf("GPU-%08d-b3c7-42f9-81f5-1d1c45f0a2c9", i) })
	got := nodelabel.Rules{Scheme: nodelabel.Own, Prefix: nodelabel.OwnPrefix}.Desired("n", page).Annotations["gpuledger.io/inventory"]
	if len(got) > 4096 || !strings.HasSuffix(got, `"more":26}`) {
		t.Errorf("annotation of %d bytes, want at most 4096, with 26 omitted GPUs: %s", len(got), got)
	}
}

func TestInventoryKey(t *testing.T) {
	for scheme, want := range map[nodelabel.Scheme]string{nodelabel.Own: "gpus.example.com/inventory", nodelabel.GPUID: "gpuledger.io/inventory"} {
		if got := (nodelabel.Rules{Scheme: scheme, Prefix: "gpus.example.com"}).InventoryKey(); got != want {
			t.Errorf("scheme %s: key %s, want %s", scheme, got, want)
		}
	}
}

func TestLost(t *testing.T) {
	page := machine(4, func(i int, g *inventory.GPU) {
		g.Present = i == 0
		if i == 2 {
			g.Serial = ""
		}
	})
	got := nodelabel.Rules{Scheme: nodelabel.Own, Prefix: "gpuledger.io"}.Desired("n", page).Lost
	if diff := cmp.Diff([]string{"gpuledger.io/gpu-1", "gpuledger.io/gpu-3"}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name  string
		rules nodelabel.Rules
		want  string // empty if valid
	}{
		{"own", nodelabel.Rules{Scheme: nodelabel.Own, Prefix: "gpus.example.com", ChassisFallback: "none-{node}"}, ""},
		{"gpuid", nodelabel.Rules{Scheme: nodelabel.GPUID, Prefix: nodelabel.GPUIDPrefix}, ""},
		{"scheme", nodelabel.Rules{Scheme: "nvidia", Prefix: "gpuledger.io"}, `unknown scheme "nvidia"`},
		{"digits and dashes", nodelabel.Rules{Scheme: nodelabel.Own, Prefix: "az-09." + strings.Repeat("z", 63) + ".io"}, ""},
		{"a dash at an end", nodelabel.Rules{Scheme: nodelabel.Own, Prefix: "gpu-.io"}, "not a DNS name"},
		{"a long label", nodelabel.Rules{Scheme: nodelabel.Own, Prefix: strings.Repeat("z", 64) + ".io"}, "not a DNS name"},
		{"a brace", nodelabel.Rules{Scheme: nodelabel.Own, Prefix: "gpu{.io"}, "not a DNS name"},
		{"reserved itself", nodelabel.Rules{Scheme: nodelabel.Own, Prefix: "k8s.io"}, "reserved"},
		{"reserved", nodelabel.Rules{Scheme: nodelabel.Own, Prefix: "gpu.kubernetes.io"}, "reserved"},
		{"no prefix", nodelabel.Rules{Scheme: nodelabel.Own}, "not a DNS name"},
		{"upper case", nodelabel.Rules{Scheme: nodelabel.Own, Prefix: "GPU.io"}, "not a DNS name"},
		{"with a slash", nodelabel.Rules{Scheme: nodelabel.Own, Prefix: "gpuledger.io/"}, "not a DNS name"},
		{"long", nodelabel.Rules{Scheme: nodelabel.Own, Prefix: strings.Repeat("abcdefgh.", 30) + "io"}, "longer than 253"},
		{"fallback", nodelabel.Rules{Scheme: nodelabel.Own, Prefix: "gpuledger.io", ChassisFallback: "none of {node}"}, "not a valid label value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.rules.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}
