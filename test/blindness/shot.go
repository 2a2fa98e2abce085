package blindness

import (
	"math"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/test/exposition"
)

// A Shot is a page of the exporter. It contains only counters that continue after a restart of the exporter. At is the
// time since the start of the play.
type Shot struct {
	At     time.Duration
	Series map[Series]Sample
	// Read contains the wall-clock time of the last reading of each GPU, by UUID.
	Read map[string]time.Time
}

// Series identifies a counter.
type Series struct {
	Name string
	UUID string
	// Owner is the pod or the unit.
	Owner string
	// Split is the method or the reason.
	Split string
	// Rest contains all other labels.
	Rest string
}

// Sample is the value of a counter in millijoules or milliseconds.
type Sample struct {
	Value   int64
	Created time.Time
}

const (
	gpuEnergy          = "gpuledger_gpu_energy_joules_total"
	containerEnergy    = "gpuledger_container_energy_joules_total"
	unitEnergy         = "gpuledger_unit_energy_joules_total"
	unattributedEnergy = "gpuledger_unattributed_energy_joules_total"
	retiredEnergy      = "gpuledger_retired_energy_joules_total"
	uncountedBound     = "gpuledger_gpu_uncounted_energy_bound_joules_total"
	containerHeld      = "gpuledger_container_gpu_allocated_seconds_total"
	unitHeld           = "gpuledger_unit_gpu_allocated_seconds_total"
	containerActive    = "gpuledger_container_gpu_active_seconds_total"
	unitActive         = "gpuledger_unit_gpu_active_seconds_total"
	lastReading        = "gpuledger_gpu_last_reading_timestamp_seconds"
)

// NewShot returns a Shot for a page.
func NewShot(at time.Duration, page exposition.Page) Shot {
	s := Shot{At: at, Series: make(map[Series]Sample), Read: make(map[string]time.Time)}
	for name, family := range page {
		mortal := strings.HasPrefix(name, "gpuledger_stage_") || strings.HasPrefix(name, "gpuledger_http_")
		if !strings.HasPrefix(name, "gpuledger_") || mortal || family.GetType() != dto.MetricType_COUNTER {
			continue
		}
		for _, m := range family.GetMetric() {
			value := int64(math.Round(m.GetCounter().GetValue() * 1000))
			s.Series[seriesOf(name, m)] = Sample{value, m.GetCounter().GetCreatedTimestamp().AsTime()}
		}
	}
	for _, m := range page[lastReading].GetMetric() {
		s.Read[exposition.Labels(m)["UUID"]] = time.UnixMilli(int64(exposition.Value(m) * 1000))
	}
	return s
}

func seriesOf(name string, m *dto.Metric) Series {
	s := Series{Name: name}
	for _, l := range m.Label {
		switch l.GetName() {
		case "UUID":
			s.UUID = l.GetValue()
		case "pod", "unit":
			s.Owner = l.GetValue()
		case "method", "reason":
			s.Split = l.GetValue()
		default:
			s.Rest += " " + l.GetName() + "=" + l.GetValue()
		}
	}
	return s
}

// sum adds up the series that match the given labels. An empty label matches any value.
func (s *Shot) sum(match Series) (sum int64) {
	for k, v := range s.Series {
		if k.Name == match.Name && fits(match.UUID, k.UUID) && fits(match.Owner, k.Owner) && fits(match.Split, k.Split) {
			sum += v.Value
		}
	}
	return sum
}

func fits(want, got string) bool { return want == "" || want == got }
