package host_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/host"
)

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCountPCI(t *testing.T) {
	classes := []gpu.PCIClass{{Vendor: "0x10de", Class: "0x0300", Driver: "nvidia"}, {Vendor: "0x10de", Class: "0x0302", Driver: "nvidia"}}
	root := t.TempDir()
	write(t, root, map[string]string{
		"bus/pci/devices/0000:1b:00.0/vendor": "0x10de\n", "bus/pci/devices/0000:1b:00.0/class": "0x030200\n",
		"bus/pci/devices/0000:43:00.0/vendor": "0x10de\n", "bus/pci/devices/0000:43:00.0/class": "0x030000\n",
		"bus/pci/devices/0000:05:00.0/vendor": "0x10de\n", "bus/pci/devices/0000:05:00.0/class": "0x068000\n", // an NVSwitch
		"bus/pci/devices/0000:02:00.0/vendor": "0x1a03\n", "bus/pci/devices/0000:02:00.0/class": "0x030000\n", // the graphics of the BMC
		"bus/pci/devices/0000:99:00.0/vendor": "0x10de\n", // a device that is being removed
	})
	for device, driver := range map[string]string{"0000:a1:00.0": "vfio-pci", "0000:a2:00.0": "future-vfio-pci", "0000:a3:00.0": "nvidia"} {
		folder := filepath.Join("bus/pci/devices", device)
		write(t, root, map[string]string{folder + "/vendor": "0x10de\n", folder + "/class": "0x030200\n"})
		if err := os.Symlink("../../../bus/pci/drivers/"+driver, filepath.Join(root, folder, "driver")); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := (host.Host{SysFS: root}).CountPCI(classes); err != nil || n != 3 {
		t.Errorf("%d GPUs, error %v; want 3 (two without a driver, one with NVIDIA's driver)", n, err)
	}
	if _, err := (host.Host{SysFS: filepath.Join(root, "none")}).CountPCI(classes); err == nil {
		t.Error("no error for a missing /sys")
	}
}

// TestCountPCIAttribute checks that a display controller counts only if it has a unique id. The graphics unit of a
// processor has the same PCI class, but no unique id.
func TestCountPCIAttribute(t *testing.T) {
	root := t.TempDir()
	classes := []gpu.PCIClass{{Vendor: "0x1002", Class: "0x1200"}, {Vendor: "0x1002", Class: "0x0380", Attribute: "unique_id"}}
	for device, files := range map[string][2]string{
		"0000:1b:00.0": {"0x120000", ""},
		"0000:1c:00.0": {"0x038000", "5a1f00000000001c"},
		"0000:1d:00.0": {"0x038000", ""},
		"0000:1e:00.0": {"0x038000", "0000000000000000"},
	} {
		folder := "bus/pci/devices/" + device
		write(t, root, map[string]string{folder + "/vendor": "0x1002\n", folder + "/class": files[0] + "\n"})
		if files[1] != "" {
			write(t, root, map[string]string{folder + "/unique_id": files[1] + "\n"})
		}
	}
	if n, err := (host.Host{SysFS: root}).CountPCI(classes); err != nil || n != 2 {
		t.Errorf("%d GPUs, error %v; want 2", n, err)
	}
}

func TestNode(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"class/dmi/id/sys_vendor": "Example Systems\n", "class/dmi/id/product_serial": "EX0042\n",
		"class/dmi/id/chassis_serial": "CH0007\n", "class/dmi/id/product_uuid": "1b4e28ba-2fa1-11d2-883f-0016d3cca427\n",
		"class/dmi/id/uevent": "MODALIAS=dmi\n",
	})
	want := gpu.Node{
		SysVendor: "Example Systems", ProductSerial: "EX0042", ChassisSerial: "CH0007",
		SystemUUID: "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
	}
	got, err := host.Host{SysFS: root}.Node()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("node (-want +got):\n%serror: %v", diff, err)
	}
}

func TestBootID(t *testing.T) {
	root := t.TempDir()
	if _, err := (host.Host{ProcFS: root}).BootID(); err == nil {
		t.Error("no error for a missing file")
	}
	write(t, root, map[string]string{"sys/kernel/random/boot_id": "7d3c1f52-0000-4000-8000-0123456789ab\n"})
	if id, err := (host.Host{ProcFS: root}).BootID(); err != nil || id != "7d3c1f52-0000-4000-8000-0123456789ab" {
		t.Errorf("boot id %q, error %v", id, err)
	}
}

func TestNow(t *testing.T) {
	a := host.Now()
	if b := host.Now(); b.Boot < a.Boot || a.Boot <= 0 {
		t.Errorf("boot clock changed from %v to %v, want it positive and not decreasing", a.Boot, b.Boot)
	}
}
