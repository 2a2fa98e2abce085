//go:build e2e

package archive_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// TestStores checks that a lone Prometheus, whose answers have no external labels, and a Thanos
// Query over it give the same files.
func TestStores(t *testing.T) {
	s := foldtest.NewStore()
	foldtest.NewFleet(s, began, 3, 5).Run(hours * 60)
	group, binary := program.OpenFor(t), binary(t)
	server := serve(t, group, "store", s, "global: {external_labels: {cluster: east, replica: a}}")
	lone := t.TempDir()
	if out, err := once(t.Context(), binary, lone, "--store.url="+server.URL(), "--cluster=east"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	query := thanos(t, group, server.URL(), group.Path("store"))
	common := t.TempDir()
	if out, err := once(t.Context(), binary, common, "--store.url="+query, "--store.type=thanos"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := cmp.Diff(tree(t, lone), tree(t, common)); diff != "" {
		t.Errorf("files (-Prometheus +Thanos):\n%s", diff)
	}
	if out, err := once(t.Context(), binary, t.TempDir(), "--store.url="+server.URL()); err == nil || !strings.Contains(string(out), "no label cluster") {
		t.Errorf("without --cluster: %v\n%s", err, out)
	}
}

// thanos starts a sidecar of a Prometheus and a Query, and returns the URL of the Query.
func thanos(t *testing.T, group *program.Group, url, data string) string {
	t.Helper()
	path := filepath.Join(os.Getenv("GPULEDGER_E2E_THANOS"), "thanos")
	sidecar, http, grpc, queryGRPC := program.AddressFor(t), program.AddressFor(t), program.AddressFor(t), program.AddressFor(t)
	_, err := group.Start("sidecar", path, "sidecar", "--prometheus.url="+url, "--tsdb.path="+data, "--http-address="+sidecar, "--grpc-address="+grpc)
	check(t, err)
	q, err := group.Start("query", path, "query", "--http-address="+http, "--grpc-address="+queryGRPC, "--endpoint="+grpc, "--query.replica-label=replica")
	check(t, err)
	check(t, q.Ready(t.Context(), "http://"+http+"/-/ready"))
	for deadline := time.Now().Add(time.Minute); ; <-time.After(100 * time.Millisecond) {
		found, err := prometheus.Query(t.Context(), "http://"+http, "gpuledger_board_energy_joules_total", began.Add(hours*time.Hour))
		check(t, err)
		if len(found) > 0 {
			return "http://" + http
		}
		if time.Now().After(deadline) {
			t.Fatal("the Query has no samples after a minute")
		}
	}
}

// TestRefused checks that hours with incomplete or contradicting samples are refused with the
// reason, and that complete hours are filed.
func TestRefused(t *testing.T) {
	end := time.Now().UTC().Truncate(time.Hour).Add(-time.Hour)
	lagging := foldtest.NewStore()
	foldtest.NewFleet(lagging, end.Add(-2*time.Hour), 4, 2, "cluster", "east").Run(120)
	replicas := foldtest.NewStore()
	for _, replica := range []string{"a", "b"} {
		foldtest.NewFleet(replicas, began, 5, 2, "cluster", "east", "replica", replica).Run(hours * 60)
	}
	tests := []struct {
		name  string
		store *foldtest.Store
		args  []string
		want  string
		filed int
	}{
		{"lagging", lagging, []string{"--from=" + end.Add(-2*time.Hour).Format(time.RFC3339), "--until=" + end.Format(time.RFC3339)}, "no samples after the hour", 1},
		{"replicas", replicas, nil, "deduplicate the replicas", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := serve(t, program.OpenFor(t), "store", tt.store, "")
			folder := t.TempDir()
			out, err := once(t.Context(), binary(t), folder, append([]string{"--store.url=" + server.URL()}, tt.args...)...)
			if err == nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("%v, want %q in the log:\n%s", err, tt.want, out)
			}
			if got := len(rows(t, folder, "hours")); got != tt.filed {
				t.Errorf("%d hours are filed, want %d", got, tt.filed)
			}
		})
	}
}
