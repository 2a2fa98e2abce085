//go:build realtime

package main_test

import (
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/exposition"
)

var kills = flag.Int("kills", 20, "number of times that TestKilled kills the exporter")

// longestLife is the maximum time from the first page with energy to the end of an exporter. In a random third of the
// runs, this time begins at the start of the exporter. The exporter may then be killed before it serves any energy.
const longestLife = time.Second

// TestKilled kills the exporter at random times, even during its start, and checks every later page. No counter may
// have decreased, restarted or disappeared. The accounts of each GPU must add up to exactly the energy that its board
// used.
func TestKilled(t *testing.T) {
	seed := seeded(t)
	nodes := []struct {
		scenario string
		// engine is set if the node has a host engine.
		engine bool
	}{{"churn", false}, {"timeslice", false}, {"dgx-h100", false}, {"mig", false}, {"timeslice", true}}
	for i, of := range nodes {
		name := of.scenario
		if of.engine {
			name += "-dcgm"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			v := newVictim(t, of.scenario, of.engine)
			for n := i; n < *kills; n += len(nodes) {
				v.runOnce(time.Duration(random.Int64N(int64(longestLife))), random.IntN(3) == 0)
			}
			v.outlive()
		})
	}
}

// A victim is an exporter that the test starts and kills repeatedly. It contains the last scraped sample of every
// counter.
type victim struct {
	t      *testing.T
	node   *simnode.Node
	engine bool
	seen   map[string]sample // last scraped sample of every counter, by series
	last   page
	// first contains, for each board, the values of the energy counter from which the exporter may have begun to count.
	first map[string][]gpu.Millijoules

	lives, scrapes, compared int
}

type sample struct {
	value   float64
	created time.Time
}

// newVictim waits until the energy of every GPU is counted.
func newVictim(t *testing.T, scenario string, engine bool) *victim {
	v := &victim{t: t, node: newNode(t, scenario), engine: engine, seen: map[string]sample{}, first: map[string][]gpu.Millijoules{}}
	e := start(t, v.node, v.flags()...)
	e.scrapeUntil("every book has begun", func(p page) bool {
		n := len(p.UUIDs())
		for _, m := range p["gpuledger_gpu_energy_joules_total"].GetMetric() {
			if exposition.Value(m) > 0 {
				n--
			}
		}
		return n == 0 && len(p.UUIDs()) > 0
	})
	p, err := e.scrapeCounters()
	if err != nil {
		t.Fatal(err)
	}
	v.look(p)
	_ = e.cmd.Process.Kill()
	<-e.exited
	for uuid, read := range readCounters(t, v.node) {
		v.first[uuid] = read[:min(2, len(read))]
	}
	v.checkBoards()
	return v
}

// With this retention, no account expires during the test, so a missing account is an error.
func (v *victim) flags() []string {
	flags := []string{"--tick=200ms", "--retention=1h", unhurried}
	if v.engine {
		flags = append(flags, v.node.EngineFlags(client)...)
	}
	return flags
}

// runOnce starts the exporter, scrapes it, and kills it after the time span. The time span begins when the exporter
// first serves energy. If young is set, it begins when the exporter starts.
func (v *victim) runOnce(span time.Duration, young bool) {
	v.lives++
	e := launch(v.t, v.node.Env(), onNode(v.node, v.flags()...)...)
	var killer *time.Timer
	kill := func() {
		if killer == nil {
			killer = time.AfterFunc(span, func() { _ = e.cmd.Process.Kill() })
		}
	}
	if young {
		kill()
	}
	select {
	case address := <-e.listening:
		e.url = "http://" + address
	case <-e.exited:
	}
	for due := time.After(hangTimeout); ; {
		select {
		case <-e.exited:
			if v.checkBoards(); killer == nil {
				v.t.Fatalf("the exporter ended before it was killed: %v", e.err)
			}
			return
		case <-due:
			v.t.Fatal("the exporter showed no books")
		case <-time.After(20 * time.Millisecond):
		}
		if p, err := e.scrapeCounters(); err == nil && v.look(p) {
			kill()
		}
	}
}

// outlive starts the exporter again, checks that its energy counters continue to grow, and logs the energy that was
// charged to gaps.
func (v *victim) outlive() {
	e := start(v.t, v.node, v.flags()...)
	was := v.last.Millijoules("gpuledger_gpu_energy_joules_total", nil)
	eventually(v.t, "the books continue", func() bool {
		p, err := e.scrapeCounters()
		if err != nil {
			v.t.Fatal(err)
		}
		v.look(p)
		return p.Millijoules("gpuledger_gpu_energy_joules_total", nil) > was+1000
	})
	v.checkBoards()
	total := v.last.Millijoules("gpuledger_gpu_energy_joules_total", nil)
	gap := v.last.Millijoules("gpuledger_unattributed_energy_joules_total", map[string]string{"reason": "gap"})
	v.t.Logf("%s: killed %d times, %d pages, %d counters compared; %.0f J, %.0f J of them fell into gaps",
		v.t.Name(), v.lives+1, v.scrapes, v.compared, total.Joules(), gap.Joules())
}

// look compares a page with earlier pages. It returns false if the page contains no energy counter. This is normal
// before the first reading.
func (v *victim) look(p page) bool {
	v.t.Helper()
	if len(p["gpuledger_gpu_energy_joules_total"].GetMetric()) == 0 {
		return false
	}
	v.scrapes++
	checkBalance(v.t, p)
	now := counters(p)
	for series, was := range v.seen {
		is, there := now[series]
		switch {
		case !there:
			v.t.Errorf("%s is missing; its last value was %v", series, was.value)
		case is.value < was.value:
			v.t.Errorf("%s fell from %v to %v", series, was.value, is.value)
		case !is.created.Equal(was.created):
			v.t.Errorf("the created timestamp of %s changed from %v to %v", series, was.created, is.created)
		}
		v.compared++
	}
	v.seen, v.last = now, p
	return true
}

// counters returns the counters that must continue after a restart of the exporter. It omits counters of GPU health,
// which the driver or the GPU keeps.
func counters(p page) map[string]sample {
	out := make(map[string]sample)
	for name, f := range p {
		ofProcess := strings.HasPrefix(name, "gpuledger_stage_") || strings.HasPrefix(name, "gpuledger_http_")
		ofDriver := slices.Contains(hardwareCounters, name) ||
			slices.ContainsFunc(gpu.HealthInfos[:], func(h gpu.HealthInfo) bool { return name == "gpuledger_gpu_"+h.Name })
		if !strings.HasPrefix(name, "gpuledger_") || f.GetType() != dto.MetricType_COUNTER || ofProcess || ofDriver {
			continue
		}
		for _, m := range f.GetMetric() {
			out[seriesOf(name, m)] = sample{m.GetCounter().GetValue(), m.GetCounter().GetCreatedTimestamp().AsTime()}
		}
	}
	return out
}

// The labels need no sorting, because all pages contain them in the same order.
func seriesOf(name string, m *dto.Metric) string {
	var b strings.Builder
	b.WriteString(name)
	for _, l := range m.Label {
		b.WriteString(" " + l.GetName() + "=" + l.GetValue())
	}
	return b.String()
}

// checkBoards compares the last scraped energy of every board with the driver's readings. The energy must be the
// difference between a later reading and one of the first readings. This first reading must be the same in all checks.
func (v *victim) checkBoards() {
	v.t.Helper()
	for uuid, read := range readCounters(v.t, v.node) {
		energy := v.last.Millijoules("gpuledger_gpu_energy_joules_total", map[string]string{"UUID": uuid})
		var first []gpu.Millijoules
		for _, from := range v.first[uuid] {
			for _, to := range read {
				if to-from == energy {
					first = append(first, from)
				}
			}
		}
		if len(first) == 0 {
			v.t.Errorf("%s: the book holds %d mJ, but no reading differs by this energy from one of the first readings %d; the counter is at %d", uuid, energy, v.first[uuid], read[len(read)-1])
			return
		}
		v.first[uuid] = first
	}
}

// scrapeCounters scrapes both pages in the format with created timestamps. The metric names of the pages differ, so one
// page can contain the samples of both pages.
func (e *exporter) scrapeCounters() (page, error) {
	return e.scrapeCountersBy(http.DefaultClient)
}

func (e *exporter) scrapeCountersBy(client *http.Client) (page, error) {
	p := make(page)
	return p, errors.Join(scrapeInto(p, client, e.url+"/metrics"), scrapeInto(p, client, e.url+"/metrics/record"))
}

func scrapeInto(p page, client *http.Client, url string) error {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for decoder := expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header)); ; {
		family := new(dto.MetricFamily)
		switch err := decoder.Decode(family); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		p[family.GetName()] = family
	}
}
