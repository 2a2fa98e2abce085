package archive

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

type summary struct {
	filed   int
	skipped int // hours that were already filed and did not change
	rows    int
	refused map[string]int
}

func (s *summary) add(h *table.Hour) {
	s.filed++
	s.rows += len(h.GPUs) + len(h.Charges) + len(h.Pods) + len(h.Workloads)
}

func (s *summary) refuse(err error) {
	if s.refused == nil {
		s.refused = make(map[string]int)
	}
	s.refused[reason(err)]++
}

func (f *filer) summarize(began time.Time) {
	refused := 0
	var why []string
	for _, name := range slices.Sorted(maps.Keys(f.summary.refused)) {
		refused += f.summary.refused[name]
		why = append(why, fmt.Sprintf("%s=%d", name, f.summary.refused[name]))
	}
	attrs := []any{"sink", f.Name, "filed", f.summary.filed, "skipped", f.summary.skipped, "refused", refused}
	if len(why) > 0 {
		attrs = append(attrs, "reasons", strings.Join(why, " "))
	}
	f.log.Info("finished", append(attrs, "rows", f.summary.rows, "seconds", seconds(time.Since(began)))...)
}

func (f *filer) logFiled(h *table.Hour, revision int64, took time.Duration) {
	attrs := []any{
		"sink", f.Name, "cluster", h.Cluster, "hour", h.Start, "revision", revision, "gpus", len(h.GPUs), "charges", len(h.Charges), "seconds", seconds(took),
	}
	if h.Dropped > 0 {
		attrs = append(attrs, "dropped_scrapes", h.Dropped)
	}
	if f.left > 1 {
		attrs = append(attrs, "hours_left", f.left-1)
	}
	f.log.Info("hour filed", attrs...)
}

func seconds(took time.Duration) float64 { return math.Round(took.Seconds()*1000) / 1000 }
