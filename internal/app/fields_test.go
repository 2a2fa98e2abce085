package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/status"
)

// unshown lists the paths of values in a snapshot that are on no page, with the reason. An entry also applies to every
// path that begins with the path of the entry.
var unshown = map[string]string{
	"At.Boot":                                "for calculations",
	"GPUs.Renamed":                           "used in the record only if it is later than the counter's start",
	"GPUs.Silent":                            "for the evidence on /health.json, see TestSlowStartAfterOutage",
	"GPUs.Device.Position":                   "for the numbers in the files of Slurm prologs",
	"GPUs.Device.Released":                   "for the evidence on /health.json, see TestReleasedGPU",
	"GPUs.Recent.Clock":                      "on /health.json if it is low, see the test of internal/health",
	"GPUs.Recent.Utilization":                "for the comparison of clocks on /health.json",
	"GPUs.Reading.UUID":                      "equal to the UUID of the GPU",
	"GPUs.Reading.At":                        "on the page as LastReading",
	"GPUs.Reading.Took":                      "for the ledger",
	"GPUs.Reading.Energy":                    "for the ledger",
	"GPUs.Reading.PowerSum":                  "for the ledger",
	"GPUs.Reading.ModulePower":               "for the ledger",
	"GPUs.Reading.ModuleShare":               "for the ledger",
	"GPUs.Reading.QuietPower":                "for the ledger",
	"GPUs.Reading.QuietSampled":              "for the ledger",
	"GPUs.Reading.Throttled":                 "for the ledger",
	"GPUs.Reading.Health":                    "on the page by the number of its metric, see the test of the collector",
	"GPUs.Reading.Details":                   "on the page with --collector.health.details, see the test of the collector",
	"GPUs.Reading.Counters":                  "summed in Totals",
	"GPUs.Totals":                            "in Health and in the record, see the tests of the sampler and the record",
	"GPUs.TotalsSince":                       "created timestamp in the record, see TestRASErrorsCreated",
	"GPUs.Reading.NVLinkRate":                "on /gpu/metrics for NVIDIA's GPUs, see the test of the collector",
	"GPUs.Reading.InstanceProfiles":          "on the page with --collector.profiling, see the test of the collector",
	"GPUs.Reading.Profile":                   "on the page with --collector.profiling, see the test of the collector",
	"GPUs.Events.First":                      "on /health.json, for XID errors with a rule",
	"GPUs.Events.Driver":                     "for the counts by XID code",
	"GPUs.Events.Kernel":                     "for the counts by XID code",
	"GPUs.Events.Records":                    "for the counts by XID code",
	"NVSwitches.Records":                     "for the number of errors",
	"GPUs.Book.IdlePower":                    "on the page as Floor",
	"GPUs.Reading.Contexts":                  "empty in a snapshot",
	"GPUs.Reading.Sample":                    "empty in a snapshot",
	"GPUs.Reading.Instances":                 "empty in a snapshot",
	"GPUs.Reading.WeightedSamples":           "for the utilisation of the processes",
	"GPUs.Intervals":                         "on the page /explain, for a given GPU and owner",
	"GPUs.Processes.Process.Name":            "in the book's account, as it was first read",
	"GPUs.Processes.Process.StartTime":       "in the book's account",
	"GPUs.Processes.Process.Owner.Scope":     "in the book's account",
	"GPUs.Processes.Process.Owner.Name":      "in the book's account",
	"GPUs.Processes.Process.Owner.UID":       "in the book's account",
	"GPUs.Processes.Process.Owner.Part":      "in the book's account",
	"GPUs.Processes.Process.ContainerID":     "in the book's account",
	"GPUs.Processes.Process.Unit":            "in the book's account",
	"GPUs.Book.Settled.Boot":                 "for calculations",
	"GPUs.Book.Accounts.LastAlive":           "for the retention",
	"GPUs.Book.Accounts.Processes.LastAlive": "for the retention",
	"GPUs.Book.Accounts.Units.LastAlive":     "for the retention",
}

// TestEveryFieldIsShown checks that each value of a snapshot is on a page. For two complete snapshots, it removes
// each value in turn. After each removal, at least one page of one of these snapshots must change.
func TestEveryFieldIsShown(t *testing.T) {
	shown := make(map[string]bool)
	for _, conditions := range []bool{true, false} {
		full := func() *gpu.Snapshot { return gpu.Full[gpu.Snapshot](conditions) }
		all := pagesOf(t, full())
		gputest.Without(full, func(path string, s *gpu.Snapshot) { shown[path] = shown[path] || pagesOf(t, s) != all })
	}
	for path, shown := range shown {
		listed := slices.ContainsFunc(slices.Collect(maps.Keys(unshown)), func(entry string) bool { return strings.HasPrefix(path, entry) })
		switch {
		case !shown && !listed:
			t.Errorf("%s is on no page", path)
		case shown && listed:
			t.Errorf("%s is on a page, but unshown lists it", path)
		}
	}
}

func pagesOf(t *testing.T, s *gpu.Snapshot) string {
	t.Helper()
	var out bytes.Buffer
	latest := func() *gpu.Snapshot { return s }
	for _, page := range []prometheus.TransactionalGatherer{
		collector.New(latest, collector.Options{Gauges: true}), collector.NewRecord(latest), collector.NewFields(latest, collector.Hostname),
	} {
		families, done, err := page.Gather()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out, families)
		done()
	}
	for _, page := range []any{inventory.New(s), status.New(s, s.At)} {
		if err := json.NewEncoder(&out).Encode(page); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
