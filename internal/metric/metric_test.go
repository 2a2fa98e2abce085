package metric_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/metric"
)

func text(labels []*dto.LabelPair) (out []string) {
	for _, l := range labels {
		out = append(out, l.GetName()+"="+l.GetValue())
	}
	return out
}

// Shared must return one pair for equal labels, and New must return a new pair. Both must make values valid.
func TestPairs(t *testing.T) {
	var p metric.Pairs
	a, b, c, d := p.Shared("pod", "x\xff"), p.Shared("pod", "x\xfe"), p.New("pod", "x\xff"), p.Shared("name", "x")
	if a != b || a == c || a == d || a.Name != c.Name {
		t.Error("want equal shared pairs, distinct new pairs and equal names")
	}
	if diff := cmp.Diff([]string{"pod=x\ufffd", "pod=x\ufffd", "pod=x\ufffd", "name=x"}, text([]*dto.LabelPair{a, b, c, d})); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
}

// Values must be correct for more pairs than the cache can contain.
func TestManyPairs(t *testing.T) {
	var p metric.Pairs
	for i := range 50_000 {
		if v := p.Shared("n", fmt.Sprint(i)).GetValue(); v != fmt.Sprint(i) {
			t.Fatalf("value %q, want %d", v, i)
		}
	}
}

func TestCheck(t *testing.T) {
	m := metric.Metric{Name: "x_info", Labels: []string{"UUID", "gpu"}}
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{"gpu", "UUID"}, ""},
		{[]string{"UUID"}, "x_info has the labels UUID, but must have UUID, gpu"},
		{[]string{"UUID", "gpu", "device"}, "x_info has the labels UUID, device, gpu, but must have UUID, gpu"},
		{[]string{"UUID", "GPU"}, "x_info has the labels GPU, UUID, but must have UUID, gpu"},
		{nil, "x_info has the labels , but must have UUID, gpu"},
	} {
		var p metric.Pairs
		var labels []*dto.LabelPair
		for _, name := range tt.names {
			labels = append(labels, p.Shared(name, "v"))
		}
		metric.Sort(labels)
		if err := m.Check(labels); fmt.Sprint(err) != fmt.Sprint(errorOf(tt.want)) {
			t.Errorf("%v: error %v, want %q", tt.names, err, tt.want)
		}
	}
}

// Labels may be given in any order. If the labels are wrong, the scrape must fail, and MustHave must panic.
func TestConstant(t *testing.T) {
	m := metric.Metric{Name: "x_info", Type: prometheus.GaugeValue, Labels: []string{"UUID", "gpu"}}
	for _, tt := range []struct {
		labels []string
		ok     bool
	}{
		{[]string{"gpu", "0", "UUID", "a"}, true},
		{[]string{"UUID", "a"}, false},
		{[]string{"UUID", "a", "gpu", "0", "device", "b"}, false},
		{[]string{"UUID", "a", "GPU", "0"}, false},
		{[]string{"UUID", "a", "gpu", "0", "gpu", "1"}, false},
		{[]string{"UUID", "a", "UUID", "b"}, false},
		{nil, false},
	} {
		var series dto.Metric
		err := m.Constant(m.NewDesc(), 1, tt.labels...).Write(&series)
		if (err == nil) != tt.ok || tt.ok && !slices.Equal(text(series.Label), []string{"UUID=a", "gpu=0"}) {
			t.Errorf("%v: labels %v, error %v", tt.labels, text(series.Label), err)
		}
		func() {
			defer func() {
				if panicked := recover() != nil; panicked == tt.ok {
					t.Errorf("%v: MustHave panicked: %v", tt.labels, panicked)
				}
			}()
			m.MustHave(tt.labels...)
		}()
	}
	if err := m.Constant(m.NewDesc(), 1, "UUID", "\xff", "gpu", "0").Write(new(dto.Metric)); err == nil {
		t.Error("an invalid value is accepted")
	}
}

func errorOf(text string) error {
	if text == "" {
		return nil
	}
	return fmt.Errorf("%s", text)
}

func TestMetric(t *testing.T) {
	m := metric.Metric{Name: "x", Unit: "joules"}
	if f := m.NewFamily(nil); f.GetName() != "x" || f.GetUnit() != "joules" {
		t.Errorf("family %v, want name x and unit joules", f)
	}
	if !slices.Equal([]string{metric.MainPage.Path(), metric.Page("/other").Path()}, []string{"/metrics", "/other"}) {
		t.Error("paths of pages differ from /metrics and /other")
	}
}
