package archive

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// If one sink contains an hour and another sink refuses it, the hour must stay refused in the other sink. If several
// sinks refuse an hour for the same reason, the log and the metric must count the hour once.
func TestRefusalsBySink(t *testing.T) {
	var log bytes.Buffer
	metrics := newMetrics()
	r := newRefusals(metrics.refused, slog.New(slog.NewTextHandler(&log, nil)))
	silent, rejected := &refusal{errSilent, true}, &refusal{error: fmt.Errorf("the sink sqlite rejects the hour: %w", errDownsampled)}
	of := func(sink string) refusedHour { return refusedHour{"east", noon, sink} }
	expect := func(wantRows string, wantSilent, wantLogs int) {
		t.Helper()
		var rows []string
		for _, row := range r.answer("", "").Rows {
			rows = append(rows, fmt.Sprint(row[0], " ", row[3]))
		}
		if got := strings.Join(rows, ", "); got != wantRows {
			t.Errorf("refused: %q, want %q", got, wantRows)
		}
		var metric dto.Metric
		check(t, metrics.refused.WithLabelValues("east", "silent_nodes").Write(&metric))
		if got := metric.GetGauge().GetValue(); got != float64(wantSilent) {
			t.Errorf("the metric is %v, want %d", got, wantSilent)
		}
		if got := strings.Count(log.String(), "hour refused"); got != wantLogs {
			t.Errorf("%d lines in the log, want %d:\n%s", got, wantLogs, log.String())
		}
	}
	for range 2 {
		r.add(of("folder"), time.Time{}, silent)
		r.add(of("sqlite"), time.Time{}, silent)
	}
	expect("folder silent_nodes, sqlite silent_nodes", 1, 1)
	r.remove(of("folder"))
	expect("sqlite silent_nodes", 1, 1)
	r.add(of("sqlite"), time.Time{}, rejected)
	expect("sqlite downsampled", 0, 2)
	r.remove(refusedHour{"", noon, "sqlite"})
	expect("", 0, 2)
}
