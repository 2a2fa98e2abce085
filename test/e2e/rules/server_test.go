//go:build e2e

package rules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// began is when histories begin, for a server.
var began = time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)

// server is a Prometheus with a history, for questions that read more than promtool
// allows.
type server struct{ url string }

// serve starts a Prometheus that has the history, and what rules made of it. The files
// are filled in one after the other, so that one may read what another recorded.
func (h *history) serve(t *testing.T, rules []string) server {
	t.Helper()
	dir := t.TempDir()
	blocks, text := filepath.Join(dir, "blocks"), filepath.Join(dir, "history")
	check(t, os.WriteFile(text, h.openMetrics(), 0o600))
	promtool(t, "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=240h", text, blocks)
	for _, file := range rules {
		s := start(t, blocks)
		promtool(t, "tsdb", "create-blocks-from", "rules", "--url="+s.url, "--output-dir="+blocks,
			fmt.Sprint("--start=", began.Unix()), fmt.Sprint("--end=", began.Add(h.length()).Unix()), file)
		s.stop()
	}
	return start(t, blocks).server
}

// openMetrics writes the history as text. It has no markers of staleness.
func (h *history) openMetrics() []byte {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h.series)) {
		for _, slot := range slices.Sorted(maps.Keys(h.series[name])) {
			if value := h.series[name][slot]; value != stale {
				fmt.Fprintf(&text, "%s %s %d\n", name, value, began.Add(time.Duration(slot)*h.interval).Unix())
			}
		}
	}
	return []byte(text.String() + "# EOF\n")
}

// length is the moment of the last sample.
func (h *history) length() time.Duration {
	last := 0
	for _, slots := range h.series {
		for slot := range slots {
			last = max(last, slot)
		}
	}
	return time.Duration(last) * h.interval
}

type running struct {
	server
	stop func()
}

func start(t *testing.T, blocks string) running {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yaml")
	check(t, os.WriteFile(config, []byte("{}\n"), 0o600))
	log, err := os.Create(filepath.Join(dir, "log"))
	check(t, err)
	port := freePort(t)
	cmd := exec.Command(filepath.Join(os.Getenv(prometheusEnv), "prometheus"), "--config.file="+config, "--storage.tsdb.path="+blocks,
		"--storage.tsdb.retention.time=100y", "--web.listen-address=127.0.0.1:"+port)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(t, cmd.Start())
	r := running{server{"http://127.0.0.1:" + port}, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}}
	t.Cleanup(r.stop)
	for begun := time.Now(); ; <-time.After(50 * time.Millisecond) {
		if _, err = r.query(t.Context(), "vector(1)", began); err == nil {
			return r
		}
		if time.Since(begun) > time.Minute {
			out, _ := os.ReadFile(log.Name())
			t.Fatalf("Prometheus does not answer: %v\n%s", err, out)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	check(t, err)
	return port
}

// query asks at a moment. The answer is by labels.
func (s server) query(ctx context.Context, text string, at time.Time) (map[string]float64, error) {
	values := url.Values{"query": {text}, "time": {strconv.FormatInt(at.Unix(), 10)}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/api/v1/query?"+values.Encode(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	all := make(map[string]float64)
	for _, r := range answer.Data.Result {
		name := r.Metric["__name__"]
		delete(r.Metric, "__name__")
		if all[series(name, r.Metric)], err = strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ask asks a question. Sums of floating-point numbers may be off in their last digits.
func (s server) ask(t *testing.T, text string, q question) {
	t.Helper()
	got, err := s.query(t.Context(), text, began.Add(q.at))
	if err != nil {
		t.Errorf("%s, after %v: %v\n%s", q.title, q.at, err, text)
		return
	}
	for labels, want := range q.want {
		if value, ok := got[labels]; !ok || math.Abs(value-want) > 1e-9*max(math.Abs(want), 1e3) {
			t.Errorf("%s, after %v: %s is %v (%t), want %v", q.title, q.at, labels, value, ok, want)
		}
	}
	for labels, value := range got {
		if _, ok := q.want[labels]; !ok {
			t.Errorf("%s, after %v: %s = %v is not expected", q.title, q.at, labels, value)
		}
	}
}
