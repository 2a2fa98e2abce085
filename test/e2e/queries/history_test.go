//go:build e2e

package queries_test

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuledger/gpuledger/test/exposition"
)

// history is pages, each repeated every minute for as long as it stands.
type history struct {
	families map[string]*dto.MetricFamily
	began    time.Time
}

// stand adds a page that stands from one minute to another, the last one included.
// What programs say of themselves is left out.
func (h *history) stand(page exposition.Page, from, to int) {
	for name, mf := range page {
		if !strings.HasPrefix(name, "kube_") && !strings.HasPrefix(name, "gpuledger_") {
			continue
		}
		for _, m := range mf.Metric {
			for minute := from; minute <= to; minute++ {
				h.add(mf, m, minute)
			}
		}
	}
}

func (h *history) add(mf *dto.MetricFamily, m *dto.Metric, minute int) {
	all := h.families[mf.GetName()]
	if all == nil {
		all = &dto.MetricFamily{Name: mf.Name, Help: mf.Help, Type: mf.Type}
		h.families[mf.GetName()] = all
	}
	ms := h.began.Add(time.Duration(minute) * time.Minute).UnixMilli()
	all.Metric = append(all.Metric, &dto.Metric{Label: m.Label, Gauge: m.Gauge, Counter: m.Counter, Untyped: m.Untyped, TimestampMs: &ms})
}

// write writes the history in the OpenMetrics format, where all samples of a series
// stand together.
func (h *history) write(t *testing.T, file string) {
	t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h.families)) {
		mf := h.families[name]
		slices.SortStableFunc(mf.Metric, func(a, b *dto.Metric) int {
			return strings.Compare(fmt.Sprint(exposition.Labels(a)), fmt.Sprint(exposition.Labels(b)))
		})
		_, err := expfmt.MetricFamilyToOpenMetrics(&text, mf)
		check(t, err)
	}
	_, err := expfmt.FinalizeOpenMetrics(&text)
	check(t, err)
	check(t, os.WriteFile(file, []byte(text.String()), 0o600))
}

// prometheus is a server with a history and nothing else.
type prometheus struct {
	t   *testing.T
	url string
}

// serve starts a Prometheus that knows the history. Its queries look back for one
// interval only, so that a page ends when it ended.
func (h *history) serve(t *testing.T) *prometheus {
	t.Helper()
	programs, dir := os.Getenv(prometheusEnv), t.TempDir()
	h.write(t, filepath.Join(dir, "history"))
	blocks := filepath.Join(dir, "blocks")
	promtool := exec.CommandContext(t.Context(), filepath.Join(programs, "promtool"),
		"tsdb", "create-blocks-from", "openmetrics", filepath.Join(dir, "history"), blocks)
	if out, err := promtool.CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	config := filepath.Join(dir, "prometheus.yaml")
	check(t, os.WriteFile(config, []byte("{}\n"), 0o600))
	port := freePort(t)
	start(t, filepath.Join(programs, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+blocks,
		"--web.listen-address=127.0.0.1:"+port, "--query.lookback-delta=1m")
	p := &prometheus{t: t, url: "http://127.0.0.1:" + port}
	eventually(t, "Prometheus is ready", func() error {
		_, err := p.query("vector(1)", time.Now())
		return err
	})
	return p
}

// sample is one element of an answer.
type sample struct {
	labels map[string]string
	value  float64
}

// query asks at a moment.
func (p *prometheus) query(text string, at time.Time) ([]sample, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	values := url.Values{"query": {text}, "time": {strconv.FormatInt(at.Unix(), 10)}}
	if err := getJSON(p.t.Context(), p.url+"/api/v1/query?"+values.Encode(), &answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	var samples []sample
	for _, r := range answer.Data.Result {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			return nil, err
		}
		samples = append(samples, sample{r.Metric, v})
	}
	return samples, nil
}
