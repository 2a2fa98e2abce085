package amd_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source/amd"
)

func extract(t *testing.T, archive io.Reader) *tree {
	t.Helper()
	d := &tree{t: t, root: t.TempDir(), health: true}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return d
		}
		if err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			d.mkdir(h.Name)
		case tar.TypeSymlink:
			d.mkdir(filepath.Dir(h.Name))
			if err := os.Symlink(h.Linkname, d.path(h.Name)); err != nil {
				t.Fatal(err)
			}
		default:
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			d.write(h.Name, string(content))
		}
	}
}

// hive is the id of an XGMI hive, in the driver's format.
const hive = "6566135270000634472"

// machine returns a GPU with eight partitions, a GPU without partitions, and processes.
func machine(t *testing.T) *tree {
	d := one(t)
	d.health = true
	d.divide("CPX", 8)
	d.addCard(9, bus2, id2)
	d.write(metrics2, string(mi300(99, 300)))
	d.addNode(9, "40099", 0x1c00, 136, 8)
	d.mkdir(folder(bus2) + "/drm/renderD136")
	for i, bus := range []string{bus1, bus2} {
		d.write(folder(bus)+"/serial_number", fmt.Sprintf("69225100000%d\n", i))
		d.write(folder(bus)+"/product_name", "AMD Instinct MI300X OAM\n")
		d.write(folder(bus)+"/vbios_version", "113-M3000100-102\n")
		d.write(folder(bus)+"/hwmon/hwmon3/name", "amdgpu\n")
		d.write(folder(bus)+"/hwmon/hwmon3/power1_cap", "750000000\n")
		d.write(folder(bus)+"/hwmon/hwmon3/temp2_label", "junction\n")
		d.write(folder(bus)+"/hwmon/hwmon3/temp2_input", "48000\n")
		d.write(folder(bus)+"/xgmi_hive_info/xgmi_hive_id", hive+"\n")
		for name, content := range healthFiles {
			d.write(folder(bus)+"/"+name, content)
		}
		d.write(folder(bus)+"/ras/umc_err_count", fmt.Sprintf("ue: 0\nce: %d\nde: 0\n", i))
	}
	d.write("sys/class/kfd/kfd/topology/nodes/9/properties", "location_id 7168\ndomain 0\ndrm_render_minor 136\nnum_xcc 8\nhive_id "+hive+"\nunique_id 6493716418264924188\n")
	d.write(kfdProc+"100/vram_40013", "4096\n")
	d.write(kfdProc+"200/vram_40099", "0\n")
	d.write(kfdProc+"200/queues/0/gpuid", "40099\n")
	return d
}

// The report from the archive must differ from the machine's report only in identities.
func TestReplay(t *testing.T) {
	d := machine(t)
	var archive bytes.Buffer
	if err := amd.Archive(&archive, d.path("sys"), d.path("proc")); err != nil {
		t.Fatal(err)
	}
	content := archive.String()
	for _, secret := range []string{id1, id2, "69225100000", "6493716418264924188", hive} {
		if strings.Contains(content, secret) {
			t.Errorf("the archive contains %s", secret)
		}
	}
	r := extract(t, &archive)
	clock := gputest.NewClock()
	original, replayed := d.open(clock.Now), r.open(clock.Now)
	gputest.Read(t, original)
	gputest.Read(t, replayed)
	clock.Advance(time.Second)
	want, got := gputest.Read(t, original), gputest.Read(t, replayed)
	if len(want.Devices) != 2 || len(want.Readings) != 2 || len(want.Devices[0].Partitions.Instances) != 8 || len(want.Readings[0].Contexts) != 1 || len(want.Readings[1].Contexts) != 1 {
		t.Fatalf("the machine is read as %+v", want)
	}
	rename(&want, map[string]string{
		id1: "5a1f000000000001", id2: "5a1f000000000004", "692251000000": "5a1f000000000002", "692251000001": "5a1f000000000005",
		"5b1f993d3b8d2a68": "5a1f000000000003",
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("replayed report (-want +got):\n%s", diff)
	}
}

var updateTrees = flag.Bool("update-trees", false, "write the reports for the archives in testdata/trees, and the archive simulated.tar")

// TestTrees compares the reports from the archives in testdata/trees with golden reports. The archive simulated.tar
// comes from the simulated machine in this test. All other archives come from real machines.
func TestTrees(t *testing.T) {
	if *updateTrees {
		d := machine(t)
		f, err := os.Create("testdata/trees/simulated.tar")
		if err == nil {
			err = errors.Join(amd.Archive(f, d.path("sys"), d.path("proc")), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	archives, err := filepath.Glob("testdata/trees/*.tar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("%d archives, error %v", len(archives), err)
	}
	for _, path := range archives {
		t.Run(filepath.Base(path), func(t *testing.T) {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			now := gpu.Instant{Boot: time.Hour}
			report := gputest.Read(t, extract(t, bytes.NewReader(content)).open(func() gpu.Instant { return now }))
			got, err := json.MarshalIndent(report, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(path, ".tar") + ".json"
			if *updateTrees {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

func rename(r *gpu.Report, names map[string]string) {
	for i := range r.Devices {
		r.Devices[i].UUID, r.Devices[i].Serial = names[r.Devices[i].UUID], names[r.Devices[i].Serial]
		r.Devices[i].Fabric.ClusterUUID = names[r.Devices[i].Fabric.ClusterUUID]
		r.Readings[i].UUID = names[r.Readings[i].UUID]
	}
}

// Archive must fail if the driver is not loaded or the archive cannot be written, but not if a single file is missing.
func TestArchiveFails(t *testing.T) {
	d := newTree(t)
	d.unload()
	if err := amd.Archive(io.Discard, d.path("sys"), d.path("proc")); err == nil || !strings.Contains(err.Error(), "driver amdgpu is not loaded") {
		t.Errorf("error is %v", err)
	}
	d = one(t)
	d.remove(metrics1)
	if err := amd.Archive(io.Discard, d.path("sys"), d.path("proc")); err != nil {
		t.Error(err)
	}
	if err := amd.Archive(full{}, d.path("sys"), d.path("proc")); !errors.Is(err, errFull) {
		t.Errorf("error is %v, want %v", err, errFull)
	}
}

var errFull = errors.New("disk is full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
