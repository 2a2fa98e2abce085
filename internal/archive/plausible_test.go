package archive

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// A board draws 3 kW in one hour, so the hour is refused unless --gpu.max-power allows this power. The store contains
// the names of two of the three pods. The third pod is unknown in each archived hour.
func TestImplausible(t *testing.T) {
	s := foldtest.NewStore()
	joules := 0.0
	for minute := range 4 * 60 {
		at := noon.Add(time.Duration(minute)*time.Minute + 5*time.Second)
		if joules += 300 * 60; minute >= 60 && minute < 120 {
			joules += 2700 * 60
		}
		labels := []string{"node", "n1", "UUID", "GPU-1", "serial", "S1"}
		s.Add(at, joules, "gpuledger_board_energy_joules_total", labels...)
		s.Add(at, float64(noon.Unix()), "gpuledger_board_created_timestamp_seconds", labels...)
		for _, pod := range []string{"known", "monitor", "forged"} {
			s.Add(at, joules/4, "gpuledger_allocation_energy_joules_total", append(labels[:6:6], "namespace", "ml", "pod", pod, "pod_uid", "u-"+pod)...)
		}
		s.Add(at, 1, "gpuledger_pod_info", "namespace", "ml", "pod", "known", "pod_uid", "u-known")
		s.Add(at, 1, "kube_pod_info", "namespace", "ml", "pod", "monitor", "uid", "u-monitor")
	}
	server := httptest.NewServer(foldtest.API{Store: s})
	defer server.Close()
	file := func(more ...string) (folder, log string, err error) {
		t.Helper()
		folder = t.TempDir()
		c, err := Parse(append([]string{"--store.url=" + server.URL, "--cluster=east", "--folder=" + folder, "--from=2026-03-01T12", "--until=2026-03-01T15"}, more...))
		check(t, err)
		var text bytes.Buffer
		err = Once(t.Context(), c, noon.Add(100*time.Hour), slog.New(slog.NewTextHandler(&text, nil)))
		return folder, text.String(), err
	}
	folder, log, err := file()
	if err == nil || !strings.Contains(log, "GPU GPU-1 on node n1") || !strings.Contains(log, "above the limit of 2000 W") || !strings.Contains(log, "--gpu.max-power") {
		t.Errorf("error %v, log without the board, its power and the flag:\n%s", err, log)
	}
	if got, want := hoursOf(t, folder), "12:1 14:1"; got != want {
		t.Errorf("hours with unknown pods: %s, want %s", got, want)
	}
	if folder, log, err = file("--gpu.max-power=3100"); err != nil || hoursOf(t, folder) != "12:1 13:1 14:1" {
		t.Errorf("with --gpu.max-power: hours %s, error %v:\n%s", hoursOf(t, folder), err, log)
	}
}

func hoursOf(t *testing.T, folder string) string {
	t.Helper()
	reader, err := files.OpenReader(t.Context(), folder)
	check(t, err)
	var all []string
	err = reader.Read(t.Context(), files.Day{Cluster: "east", Date: noon.Truncate(24 * time.Hour)}.Of(table.Hours), []string{"hour", "unknown_pods"}, func(row []table.Cell) {
		all = append(all, row[0].Time().Format("15")+":"+table.Format(row[1].Int))
	})
	check(t, err)
	return strings.Join(all, " ")
}
