package collector_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/serve"
)

func fieldPage(s *gpu.Snapshot, fields int) *gpu.FieldPage {
	p := &gpu.FieldPage{}
	for i := range fields {
		p.Fields = append(p.Fields, gpu.PageField{Name: fmt.Sprintf("DCGM_FI_DEV_FIELD_%02d", i), Help: "A field.", Counter: i%3 == 2})
	}
	for i := range s.GPUs {
		row := gpu.FieldRow{UUID: s.GPUs[i].UUID}
		for k := range fields {
			row.Values = append(row.Values, new(float64(100*i+k)))
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}

func gatherFields(t *testing.T, s *gpu.Snapshot, hostname string) []*dto.MetricFamily {
	t.Helper()
	c := collector.NewFields(func() *gpu.Snapshot { return s }, hostname)
	checked := prometheus.Gatherers{prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, done, err := c.Gather()
		defer done()
		return families, err
	})}
	families, err := checked.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// TestFields compares the page with a golden page. The node has a GPU with one holder, a shared
// GPU, a GPU in MIG mode, an unused GPU, a GPU without values, and a lost GPU.
func TestFields(t *testing.T) {
	s := crowd(6, 1, 0)
	s.Node.Name = "node-1"
	s.GPUs[1].Holders = append(s.GPUs[1].Holders, holder("other", "", gpu.SharingTimeSlicing))
	s.GPUs[2].Holders = []gpu.Holder{holder("on-two", "2", gpu.SharingMIG), holder("by-itself", "9", gpu.SharingNone), holder("on-nine", "9", gpu.SharingMIG)}
	s.GPUs[0].Holders = append(s.GPUs[0].Holders, holder("guest", "", gpu.SharingUnknown))
	s.GPUs[3].Holders = nil
	s.GPUs[4].Holders = []gpu.Holder{holder("uninvited", "", gpu.SharingNone)}
	s.GPUs[5].Present = false
	s.Fields = fieldPage(s, 3)
	s.Fields.Labels = []string{"DCGM_FI_DRIVER_VERSION"}
	for i := range s.Fields.Rows {
		s.Fields.Rows[i].Labels = []string{"570.86.15"}
	}
	s.Fields.Rows[4].Values[0], s.Fields.Rows[4].Values[1] = nil, nil
	for _, instance := range []string{"2", "9", "11"} {
		s.Fields.Rows = append(s.Fields.Rows, gpu.FieldRow{
			UUID: s.GPUs[2].UUID, GPUInstance: instance, Profile: "1g.10gb", Labels: []string{"570.86.15"}, Values: []*float64{nil, new(0.5), nil},
		})
	}
	s.Fields.Rows = append(s.Fields.Rows, gpu.FieldRow{UUID: "GPU-of-nobody", Labels: []string{"570.86.15"}, Values: []*float64{nil, new(0.5), nil}})
	s.Fields.Rows = append(s.Fields.Rows, s.Fields.Rows[0]) // simulates a driver that lists this GPU twice
	checkGolden(t, "fields", gatherFields(t, s, collector.Hostname))

	checkGolden(t, "fields_hostname", gatherFields(t, s, collector.HostnameLower))
}

func holder(pod, instance string, sharing gpu.Sharing) gpu.Holder {
	return gpu.Holder{
		AccountKey: gpu.AccountKey{GPUInstance: instance, Owner: gpu.Owner{Kind: gpu.OwnerPod, Scope: "team-a", Name: pod, UID: "uid-" + pod, Part: "main"}},
		Sharing:    sharing,
	}
}

func TestNoFields(t *testing.T) {
	for _, s := range []*gpu.Snapshot{nil, crowd(1, 1, 0)} {
		if families := gatherFields(t, s, collector.Hostname); len(families) > 0 {
			t.Errorf("%d metrics, want 0", len(families))
		}
	}
}

// TestRevision checks that the revision changes exactly when the page changes.
func TestRevision(t *testing.T) {
	var s *gpu.Snapshot
	c := collector.NewFields(func() *gpu.Snapshot { return s }, collector.Hostname)
	page := fieldPage(crowd(2, 1, 0), 3)
	last := c.Revision()
	for _, tt := range []struct {
		name    string
		changes bool
		change  func(*gpu.Snapshot)
	}{
		{"no page", false, func(s *gpu.Snapshot) { s.Fields = nil }},
		{"the first page", true, func(*gpu.Snapshot) {}},
		{"the next snapshot", false, func(s *gpu.Snapshot) { s.GPUs[0].Reading = nil }},
		{"other values", true, func(s *gpu.Snapshot) { page = fieldPage(s, 3); s.Fields = page }},
		{"another pod", true, func(s *gpu.Snapshot) {
			s.GPUs[1].Holders = []gpu.Holder{holder("new", "", gpu.SharingExclusive)}
		}},
		{"the former pod", true, func(*gpu.Snapshot) {}},
		{"a lost GPU", true, func(s *gpu.Snapshot) { s.GPUs[0].Present = false }},
		{"the same", false, func(s *gpu.Snapshot) { s.GPUs[0].Present = false }},
	} {
		s = crowd(2, 1, 0)
		s.Fields = page
		tt.change(s)
		revision := c.Revision()
		if (revision != last) != tt.changes {
			t.Errorf("%s: previous revision %d, revision %d", tt.name, last, revision)
		}
		last = revision
	}
}

// BenchmarkFields scrapes the field page of eight GPUs. It measures GPUs with one holder and shared GPUs. In some cases
// all values are new, and in others they are equal to the values of the last scrape. The page has as many fields as the
// exporter's built-in file.
func BenchmarkFields(b *testing.B) {
	for _, sharers := range []int{1, 4, 10} {
		for _, changes := range []bool{false, true} {
			b.Run(fmt.Sprintf("gpus=8/sharers=%d/changes=%v", sharers, changes), func(b *testing.B) {
				s := crowd(8, sharers, 0)
				s.Node.Name = "dgx-h100-0"
				s.Fields = fieldPage(s, 25)
				pages := []*gpu.FieldPage{s.Fields, fieldPage(s, 25)}
				fields := collector.NewFields(func() *gpu.Snapshot { return s }, collector.Hostname)
				h := serve.NewMetrics(prometheus.NewRegistry(), slog.New(slog.DiscardHandler)).Cached(fields, fields.Revision)
				var size, n int
				b.ReportAllocs()
				for b.Loop() {
					if n++; changes {
						s.Fields = pages[n%2]
					}
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, collector.FieldsPath, http.NoBody))
					size = w.Body.Len()
				}
				const series = 8 * 25
				b.ReportMetric(series, "series")
				b.ReportMetric(float64(size)/series, "B/series")
			})
		}
	}
}
