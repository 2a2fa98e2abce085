//go:build e2e

package archive_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// gpuidTable creates gpuid's table as in its README, with records from the day before the example. The boards are in
// the same machines as at the start of the example. Only the spare board 105 is in another cluster.
const gpuidTable = `create table public.gpu (
    id BIGSERIAL PRIMARY KEY,
    cluster VARCHAR(255) NOT NULL,
    node VARCHAR(255) NOT NULL,
    machine VARCHAR(255) NOT NULL,
    source VARCHAR(255) NOT NULL,
    chassis VARCHAR(255) NOT NULL,
    gpu VARCHAR(255) NOT NULL,
    read_time TIMESTAMP WITH TIME ZONE NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW(),
    UNIQUE(cluster, node, machine, source, chassis, gpu, read_time)
);
insert into public.gpu (cluster, node, machine, source, chassis, gpu, read_time) values
('example', 'gpu-1', 'i-1', 'gpu-operator/nvidia-device-plugin-a', 'unknown', '1653924023100', '2026-10-31T09:00:00Z'),
('example', 'gpu-1', 'i-1', 'gpu-operator/nvidia-device-plugin-a', 'unknown', '1653924023101', '2026-10-31T09:00:00Z'),
('example', 'gpu-2', 'i-2', 'gpu-operator/nvidia-device-plugin-b', 'unknown', '1653924023102', '2026-10-31T09:00:00Z'),
('example', 'gpu-2', 'i-2', 'gpu-operator/nvidia-device-plugin-b', 'unknown', '1653924023103', '2026-10-31T09:00:00Z'),
('spares', 'gpu-9', 'i-2', 'gpu-operator/nvidia-device-plugin-c', 'unknown', '1653924023105', '2026-10-31T09:00:00Z');
`

// machined returns the n-th hour of the example. All nodes except gpu-3 have a machine id of a cloud provider.
func machined(n int) *table.Hour {
	h := example(n)
	for i := range h.GPUs {
		if number, _ := strings.CutPrefix(h.GPUs[i].Node, "gpu-"); number != "3" {
			h.GPUs[i].Machine = "i-" + number
		}
	}
	h.Digest = table.Digest(h)
	return h
}

// TestTakeOver runs the statements in take-over.md on a database that contains gpuid's table and the example.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	unindented := strings.ReplaceAll(text(t, "../../../docs/take-over.md"), "\n   ", "\n")
	server := startPostgres(t)
	url, db := server.create(t, "takeover")
	sink, err := database.Postgres.Open(t.Context(), url, "")
	check(t, err)
	defer sink.Close()
	for n := range 48 {
		check(t, sink.Replace(t.Context(), machined(n)))
	}
	server.script(t, "takeover", gpuidTable)
	asked := 0
	for _, q := range questions(t, unindented) {
		if strings.HasPrefix(q.sql, "insert") {
			server.script(t, "takeover", q.sql)
			before := db.rows(t, "select count(*) from public.gpu")
			server.script(t, "takeover", q.sql)
			if diff := cmp.Diff(before, db.rows(t, "select count(*) from public.gpu")); diff != "" {
				t.Errorf("records after a repetition (-before +after):\n%s", diff)
			}
			continue
		}
		asked++
		if diff := cmp.Diff(q.answer, db.rows(t, q.sql)); diff != "" {
			t.Errorf("%s (-documented +returned):\n%s\n%s", q.title, diff, q.sql)
		}
	}
	if asked != 4 {
		t.Errorf("%d questions on the page, want 4", asked)
	}
}
