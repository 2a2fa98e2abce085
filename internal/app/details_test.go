package app_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/golden"
)

// TestDetails checks the series of --collector.health.details. It compares them with the values in the file that the
// fake driver reads. After half a minute, it also compares them with a golden file.
func TestDetails(t *testing.T) {
	for scenario, series := range map[string]int{"dgx-h100": 26, "gb200": 28, "mig-a100": 19} {
		t.Run(scenario, func(t *testing.T) {
			sc, err := simnode.Lookup(scenario)
			if err != nil {
				t.Fatal(err)
			}
			b := benchOf(t, sc, false, "--collector.health.details")
			state, err := os.ReadFile(filepath.Join(b.world.Dir(), "driver", "state.tsv"))
			if err != nil {
				t.Fatal(err)
			}
			b.run(1)
			want, got := statedDetails(t, string(state)), valuesOf(t, b.details())
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
			if uuid := b.gpus()[len(b.gpus())-1].UUID; strings.Count(b.details(), uuid) != series {
				t.Errorf("a GPU has %d series, want %d", strings.Count(b.details(), uuid), series)
			}
			b.run(29)
			golden.Check(t, scenario+".details.prom", []byte(b.details()))
		})
	}
}

func TestNoDetails(t *testing.T) {
	b := newBench(t, "dgx-h100", false)
	b.run(1)
	if details := b.details(); details != "" {
		t.Errorf("without --collector.health.details:\n%s", details)
	}
}

func (b *bench) details() string {
	b.t.Helper()
	var lines strings.Builder
	for line := range strings.Lines(b.page()) {
		name, _, _ := strings.Cut(line, "{")
		for _, m := range collector.Catalogue() {
			if m.Flag == collector.FlagDetails && m.Name == name {
				lines.WriteString(line)
			}
		}
	}
	return lines.String()
}

func valuesOf(t *testing.T, lines string) map[string]float64 {
	t.Helper()
	values := make(map[string]float64)
	for line := range strings.Lines(lines) {
		series, text, _ := strings.Cut(strings.TrimSpace(line), "} ")
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		values[series+"}"] = v
	}
	return values
}

// These lists contain names for the values of NVML's settings and for its throttle reasons (nvml.h: nvmlEnableState_t,
// nvmlComputeMode_t, nvmlClocksEventReason*). The index is the value of the setting or the bit of the reason.
var (
	statedSwitches = []string{"disabled", "enabled"}
	statedModes    = []string{"default", "exclusive_thread", "prohibited", "exclusive_process"}
	statedReasons  = []string{
		"idle", "application_clocks", "power_cap", "hardware_slowdown", "sync_boost", "software_thermal",
		"hardware_thermal", "power_brake", "display_clocks", "board_limit", "reliability",
	}
)

// statedDetails returns the expected series, computed from the keys in the fake driver's state file. The header
// comment of nvml.c describes these keys.
func statedDetails(t *testing.T, state string) map[string]float64 {
	t.Helper()
	gpus, system := stated(state)
	want := make(map[string]float64)
	for uuid, keys := range gpus {
		add := func(name, labels string, v float64) {
			want["gpuledger_gpu_"+name+"{UUID=\""+uuid+"\""+labels+"}"] = v
		}
		number := func(key string, use func(n int)) {
			if text, ok := keys[key]; ok {
				n, err := strconv.Atoi(text)
				if err != nil {
					t.Fatalf("%s: %v", key, err)
				}
				use(n)
			}
		}
		one := func(key, name, labels string, unit float64) {
			number(key, func(n int) { add(name, labels, float64(n)*unit) })
		}
		mode := func(key, name string, settings []string) {
			number(key, func(n int) { add("mode_info", fmt.Sprintf(",mode=%q,setting=%q", name, settings[n]), 1) })
		}
		one("margin", "temperature_margin_celsius", "", 1)
		one("field170", "c2c_links", "", 1)
		one("field170", "c2c_links_active", "", 1) // all links are active
		one("inforom", "inforom_valid", "", 1)
		one("remap_correctable", "remapped_rows", `,error="correctable"`, 1)
		one("remap_uncorrectable", "remapped_rows", `,error="uncorrectable"`, 1)
		for _, clock := range []string{"graphics", "sm", "memory", "video"} {
			one("clock_max_"+clock, "clock_max_hertz", fmt.Sprintf(",clock=%q", clock), 1e6)
		}
		add("firmware_info", fmt.Sprintf(",firmware=%q,version=%q", "gsp", keys["gsp"]), 1)
		add("firmware_info", fmt.Sprintf(",firmware=%q,version=%q", "inforom", keys["inforom_image"]), 1)
		mode("persistence", "persistence", statedSwitches)
		mode("compute", "compute", statedModes)
		mode("mig", "mig", statedSwitches)
		mode("mig", "mig_pending", statedSwitches)
		number("clock_reasons", func(supported int) {
			number("clocks_event_reasons", func(active int) {
				for i, reason := range statedReasons {
					if supported>>i&1 == 1 {
						add("clock_reason_active", fmt.Sprintf(",clock_reason=%q", reason), float64(active>>i&1))
					}
				}
			})
		})
		if system["cc"] == "0" {
			add("mode_info", `,mode="confidential_computing",setting="disabled"`, 1)
		}
	}
	return want
}

func stated(state string) (gpus map[string]map[string]string, system map[string]string) {
	gpus = make(map[string]map[string]string)
	for line := range strings.Lines(state) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		keys := make(map[string]string)
		for _, f := range fields[1:] {
			key, value, _ := strings.Cut(f, "=")
			keys[key] = value
		}
		switch fields[0] {
		case "driver":
			system = keys
		case "gpu", "health":
			uuid := keys["uuid"] + keys["gpu"]
			if gpus[uuid] == nil {
				gpus[uuid] = keys
			}
			maps.Copy(gpus[uuid], keys)
		}
	}
	return gpus, system
}
