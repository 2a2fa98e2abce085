package fold_test

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
)

// meter is a simulated board whose power is given for each second. Its true energy is the integral of the power.
type meter struct {
	history
	power   func(second int) float64 // watts
	scope   string
	created bool
	phase   float64 // the board is scraped this many seconds after each full minute
	began   int     // second at which the counter was 0
	// change returns the scraped value of a minute. The result false means that there is no scrape in this minute.
	change func(minute int, joules float64) (float64, bool)
}

func newMeter(seed uint64) *meter {
	random := rand.New(rand.NewPCG(seed, 7))
	watts := make([]float64, 6*3600)
	for i := range watts {
		if i%40 == 0 || i == 0 {
			watts[i] = 70 + 630*random.Float64()
		} else {
			watts[i] = watts[i-1]
		}
	}
	return &meter{
		history: history{foldtest.NewStore()}, power: func(second int) float64 { return watts[second] }, scope: "gpu", created: true,
		phase: 1 + 58*random.Float64(), began: -80_000, change: func(_ int, joules float64) (float64, bool) { return joules, true },
	}
}

// before is the value of the counter at the start of the simulation, in joules.
const before = 40e6

// joules returns the integral of the power between two times, in seconds.
func (m *meter) joules(from, until float64) (sum float64) {
	for second := int(from); float64(second) < until; second++ {
		sum += m.power(second) * (min(until, float64(second+1)) - max(from, float64(second)))
	}
	return sum
}

// scrape adds the samples of the minutes from first to last. In each minute in the list reboots, the node reboots and
// the counter restarts. All energy of a restarted counter is charged to a pod.
func (m *meter) scrape(first, last int, reboots ...int) {
	counter, at := before+m.joules(0, float64(60*first)), float64(60*first)
	for minute := first; minute <= last; minute++ {
		now := float64(60*minute) + m.phase
		counter += m.joules(at, now)
		for _, reboot := range reboots {
			if reboot == minute {
				m.began = 60*minute - 20
				counter = m.joules(float64(m.began), now)
			}
		}
		at = now
		value, ok := m.change(minute, math.Round(counter*1000)/1000)
		if !ok {
			continue
		}
		labels := []string{"node", "a", "UUID", "GPU-1", "serial", "S1"}
		m.Add(m.at(minute), value, boardEnergy, labels...)
		m.Add(m.at(minute), 1, "gpuledger_board_energy_source_info", append(labels, "source", "counter", "scope", m.scope)...)
		if m.created {
			m.Add(m.at(minute), seconds(start.Add(time.Duration(m.began)*time.Second)), boardBegan, labels...)
		}
	}
}

func (m *meter) at(minute int) time.Time {
	return start.Add(time.Duration((float64(60*minute)+m.phase)*1000) * time.Millisecond)
}

// between returns the energy between the scrapes in two minutes, in mJ.
func (m *meter) between(first, last int) float64 {
	return 1000 * m.joules(float64(60*first)+m.phase, float64(60*last)+m.phase)
}

// TestImpossible compares the energy in the second of three hours with the integral of the board's power. A single
// wrong sample must be dropped at every place. If the last sample of the hour is wrong, the third hour must contain
// the energy since the previous sample.
func TestImpossible(t *testing.T) {
	values := map[string]func(joules float64) float64{
		"zero": func(float64) float64 { return 0 }, "Inf": func(float64) float64 { return math.Inf(1) }, "-Inf": func(float64) float64 { return math.Inf(-1) },
		"NaN": func(float64) float64 { return math.NaN() }, "1e308": func(float64) float64 { return 1e308 }, "9.3e18": func(float64) float64 { return 9.3e18 },
		"negative": func(joules float64) float64 { return -joules }, "half": func(joules float64) float64 { return joules / 2 },
		"a thousand times as much": func(joules float64) float64 { return 1000 * joules },
		"1,000 kJ more":            func(joules float64) float64 { return joules + 1e6 },
	}
	for name, wrong := range values {
		for _, at := range []int{59, 60, 90, 118, 119, 120} {
			m := newMeter(uint64(at))
			m.change = func(minute int, joules float64) (float64, bool) {
				if minute == at {
					return wrong(joules), true
				}
				return joules, true
			}
			m.scrape(0, 185)
			ends := []int{59, 119, 179} // minute of the last good scrape in each hour
			for i := range ends {
				if ends[i] == at {
					ends[i]--
				}
			}
			var closings fold.Openings
			for n, read := range []string{"", "alone", "after the first one"} {
				in := m.Input(start.Add(time.Duration(min(n, 1)) * time.Hour))
				if n == 2 {
					maps.Copy(in.Openings, closings)
				}
				h, err := fold.Fold(in)
				if err != nil {
					t.Errorf("%s at minute %d: hour %d, read %s: %v", name, at, n, read, err)
					continue
				}
				if n == 0 {
					closings = in.Closings()
					continue
				}
				if want := m.between(ends[0], ends[1]); math.Abs(float64(h.GPUs[0].Energy)-want) > 2 {
					t.Errorf("%s at minute %d, read %s: %d mJ, want %.0f", name, at, read, h.GPUs[0].Energy, want)
				}
				if within := at >= 60 && at < 120; within != (h.Dropped == 1) {
					t.Errorf("%s at minute %d, read %s: %d scrapes are dropped", name, at, read, h.Dropped)
				}
			}
			h, err := hour(m.Store, 2)
			if want := m.between(ends[1], ends[2]); err != nil || math.Abs(float64(h.GPUs[0].Energy)-want) > 2 {
				t.Errorf("%s at minute %d: third hour: %v, error %v, want %.0f mJ", name, at, h, err, want)
			}
		}
	}
}

// TestStays checks a counter that jumps to another value and continues from there. An impossible jump must be refused.
// A possible jump must be accepted.
func TestStays(t *testing.T) {
	from := func(minute int, f func(joules float64) float64) func(int, float64) (float64, bool) {
		return func(at int, joules float64) (float64, bool) {
			if at >= minute {
				return f(joules), true
			}
			return joules, true
		}
	}
	tests := []struct {
		name    string
		change  func(m *meter)
		reboots []int
		refused string  // part of the error text
		want    float64 // energy in the second hour, in mJ
	}{
		{"a jump by 1,000 kJ", func(m *meter) { m.change = from(90, func(j float64) float64 { return j + 1e6 }) }, nil, "rises by 1", 0},
		{"a jump at the start", func(m *meter) { m.change = from(60, func(j float64) float64 { return j + 1e6 }) }, nil, "rises by 1", 0},
		{"a thousand times as much", func(m *meter) { m.change = from(90, func(j float64) float64 { return 1000 * j }) }, nil, "rises by", 0},
		{"a fall", func(m *meter) { m.change = from(90, func(j float64) float64 { return j / 2 }) }, nil, "without a new created timestamp", 0},
		{"600 kW", func(m *meter) { power := m.power; m.power = func(s int) float64 { return 1000 * power(s) } }, nil, "above the limit of 2000 W", 0},
		{"2.2 kW", func(m *meter) { m.power = func(int) float64 { return 2200 } }, nil, "above the limit of 2000 W", 0},
		{"2.2 kW of a module", func(m *meter) { m.power, m.scope = func(int) float64 { return 2200 }, "module" }, nil, "", 7.92e9},
		{"4.4 kW of a module", func(m *meter) { m.power, m.scope = func(int) float64 { return 4400 }, "module" }, nil, "above the limit of 4000 W", 0},
		{"half of the scrapes are infinite", func(m *meter) {
			m.change = func(at int, j float64) (float64, bool) {
				if at%3 > 0 {
					j = math.Inf(1)
				}
				return j, true
			}
		}, nil, "40 of 60 scrapes", 0},
		{"an outage of 50 minutes", func(m *meter) {
			m.change = func(at int, j float64) (float64, bool) { return j, at < 20 || at > 70 }
		}, nil, "", newMeter(1).between(19, 119)},
		{"a driver that does not respond for 50 minutes", func(m *meter) {
			stalled := 0.0
			m.power = func(int) float64 { return 1500 }
			m.change = func(at int, j float64) (float64, bool) {
				if at < 20 || at > 70 {
					stalled = j
				}
				return stalled, true
			}
		}, nil, "", 1.5e6 * 60 * 100},
		{"a reboot", func(*meter) {}, []int{90}, "", newMeter(1).between(59, 89) + 1000*newMeter(1).joules(60*90-20, 60*119+newMeter(1).phase)},
		{
			"a reboot without created timestamps", func(m *meter) { m.created = false },
			[]int{90},
			"",
			newMeter(1).between(59, 89) + 1000*newMeter(1).joules(60*90-20, 60*119+newMeter(1).phase),
		},
		{"a single zero without created timestamps", func(m *meter) {
			m.created = false
			m.change = func(at int, j float64) (float64, bool) {
				if at == 90 {
					j = 0
				}
				return j, true
			}
		}, nil, "", newMeter(1).between(59, 119)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMeter(1)
			tt.change(m)
			m.scrape(0, 185, tt.reboots...)
			h, err := hour(m.Store, 1)
			if tt.refused != "" {
				var boards fold.BoardErrors
				if !errors.Is(err, fold.ErrImplausible) || !strings.Contains(err.Error(), tt.refused) || !errors.As(err, &boards) || boards[0].Serial != "S1" || boards[0].Node != "a" {
					t.Fatalf("error is %v, want ErrImplausible of board S1 with %q", err, tt.refused)
				}
				if len(h.GPUs) != 1 || h.GPUs[0].Energy != 0 || h.GPUs[0].Serial != "S1" {
					t.Errorf("GPUs of the refused hour: %+v, want its place without energy", h.GPUs)
				}
				return
			}
			if err != nil || math.Abs(float64(h.GPUs[0].Energy)-tt.want) > 2 {
				t.Errorf("%+v, error %v, want %.0f mJ", h, err, tt.want)
			}
		})
	}
}

// TestGPUTime checks that the sum of the GPU times of four pods on a GPU is compared with the elapsed time. The GPU was
// not scraped for half an hour around the start of the hour.
func TestGPUTime(t *testing.T) {
	for name, tt := range map[string]struct {
		share   float64 // increase in seconds per second
		refused string
	}{
		"together the clock": {0.25, ""}, "together twice the clock": {0.5, "pods and units held the GPU for"}, "each more than the clock": {1.1, "above the limit of 1 s in each second"},
	} {
		s := history{foldtest.NewStore()}
		for minute := 20.0; minute <= 120; minute++ {
			if minute > 40 && minute < 70 {
				continue
			}
			s.board(minute, 18_000*minute, -600, "a")
			for _, pod := range []string{"p", "q", "r", "s"} {
				labels := []string{"node", "a", "UUID", "GPU-1", "namespace", "ml", "pod", pod, "pod_uid", pod}
				s.Add(at(minute), tt.share*60*minute, "gpuledger_allocation_gpu_seconds_total", labels...)
				s.Add(at(minute), seconds(start), "gpuledger_allocation_created_timestamp_seconds", labels...)
			}
		}
		h, err := hour(s.Store, 1)
		if tt.refused != "" {
			if !errors.Is(err, fold.ErrImplausible) || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%s: error is %v, want %q", name, err, tt.refused)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sum := time.Duration(0)
		for _, c := range h.Charges {
			sum += time.Duration(c.GPUTime) * time.Millisecond
		}
		if sum != 80*time.Minute {
			t.Errorf("%s: %s, want the 80 minutes since the last scrape", name, sum)
		}
	}
}
