//go:build e2e

package archive_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/program"
)

// TestStores checks that the archive writes the same files from all stores: two versions of Prometheus (without
// external labels in responses), a Thanos Query, and VictoriaMetrics. The fleet is so large that the archive divides
// its queries into shards.
func TestStores(t *testing.T) {
	t.Parallel()
	s := foldtest.NewStore()
	foldtest.NewFleet(s, began, 3, 200).Run(4 * 60)
	from, until := began.Add(2*time.Hour), began.Add(4*time.Hour)
	group := program.OpenFor(t)
	const config = "global: {external_labels: {cluster: east, replica: a}}"
	server := serve(t, group, "store", s, config)
	oldest := loaded(t, oldestEnv, group, "oldest", s.OpenMetrics())
	oldest.Config = []byte(config)
	started(t, oldest)
	n := thanos{t, group}
	_, sidecar := n.sidecar(server)
	address := program.AddressFor(t)
	victoria(t, group, "victoria-metrics", address, "-storageDataPath="+group.Path("victoria"), "-retentionPeriod=100y")
	insert(t, "http://"+address, s, began, until)
	check(t, get(t.Context(), "http://"+address+"/internal/force_flush", nil))

	file := func(folder string, args ...string) {
		fileHours(t, folder, append(args, "--from="+from.Format(time.RFC3339), "--until="+until.Format(time.RFC3339))...)
	}
	folder := t.TempDir()
	file(folder, "--store.url="+server.URL(), "--cluster=east")
	if n := len(rows(t, folder, "gpu_hours")); n < 180*2 {
		t.Errorf("%d rows in two hours, too few to be read in shards", n)
	}
	want := tree(t, folder)
	for name, args := range map[string][]string{
		"Prometheus 2.42": {"--store.url=" + oldest.URL(), "--cluster=east"},
		"Thanos":          {"--store.url=" + n.query([]string{sidecar}, "--query.replica-label=replica"), "--store.type=thanos"},
		"VictoriaMetrics": {"--store.url=http://" + address, "--store.type=victoriametrics", "--cluster=east"},
	} {
		folder := t.TempDir()
		file(folder, args...)
		if diff := cmp.Diff(want, tree(t, folder)); diff != "" {
			t.Errorf("files (-Prometheus +%s):\n%s", name, diff)
		}
	}
	if out, err := once(t.Context(), t.TempDir(), "--store.url="+server.URL()); err == nil || !strings.Contains(string(out), "no label cluster") {
		t.Errorf("without --cluster: %v\n%s", err, out)
	}
}
