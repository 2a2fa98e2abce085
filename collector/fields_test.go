package collector_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// fieldPage is a page of fields of every GPU of a node, and of the MIG instances of the
// first one if there are any.
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

// withFields is a registry of the field page.
func withFields(s *gpu.Snapshot) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(collector.NewFields(func() *gpu.Snapshot { return s }))
	return r
}

// TestFields holds the page of a GPU with one holder, one that several share, one in MIG
// mode, one that is not used, one whose values there are not, and one that is lost.
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
	families, err := withFields(s).Gather()
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "fields", families)
}

func holder(pod, instance string, sharing gpu.Sharing) gpu.Holder {
	return gpu.Holder{
		AccountKey: gpu.AccountKey{GPUInstance: instance, Container: gpu.Container{Namespace: "team-a", Pod: pod, PodUID: "uid-" + pod, Container: "main"}},
		Sharing:    sharing,
	}
}

// TestNoFields: while there is no page, or nothing was read at all, nothing is shown.
func TestNoFields(t *testing.T) {
	for _, s := range []*gpu.Snapshot{nil, crowd(1, 1, 0)} {
		families, err := withFields(s).Gather()
		if err != nil || len(families) > 0 {
			t.Errorf("%d metrics, %v", len(families), err)
		}
	}
}

// TestFieldsChange: what is shown is described anew when the fields are other ones.
func TestFieldsChange(t *testing.T) {
	s := crowd(2, 1, 0)
	r := withFields(s)
	for _, fields := range []int{3, 5, 1} {
		s.Fields = fieldPage(s, fields)
		families, err := r.Gather()
		if err != nil || len(families) != fields {
			t.Errorf("%d of %d metrics, %v", len(families), fields, err)
		}
	}
}

// BenchmarkFields scrapes the field page of eight GPUs, each with one holder or shared,
// with as many fields as the file has that comes with the program.
func BenchmarkFields(b *testing.B) {
	for _, sharers := range []int{1, 4, 10} {
		b.Run(fmt.Sprintf("gpus=8/sharers=%d", sharers), func(b *testing.B) {
			s := crowd(8, sharers, 0)
			s.Node.Name = "dgx-h100-0"
			s.Fields = fieldPage(s, 25)
			r := prometheus.NewRegistry()
			r.MustRegister(collector.NewFields(func() *gpu.Snapshot { return s }))
			h := promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
			var size int
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/gpu/metrics", http.NoBody))
				size = w.Body.Len()
			}
			const series = 8 * 25
			b.ReportMetric(series, "series")
			b.ReportMetric(float64(size)/series, "B/series")
		})
	}
}
