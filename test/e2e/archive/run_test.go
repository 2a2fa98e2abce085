//go:build e2e

package archive_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/program"
)

// TestRun starts "gpuledger-archive run" twice. Both replicas must write the same hours to a database and to a folder,
// although only one can lock the folder. After SIGTERM, each must end within a second.
func TestRun(t *testing.T) {
	t.Parallel()
	const past = 10
	end := time.Now().UTC().Truncate(time.Hour)
	s := foldtest.NewStore()
	foldtest.NewFleet(s, end.Add(-past*time.Hour), 7, 4, "cluster", "east").Run(int(time.Since(end.Add(-past * time.Hour)).Minutes()))
	group, folder := program.OpenFor(t), t.TempDir()
	url, db := startPostgres(t).create(t, "gpuledger")
	store := "--store.url=" + simulated(t, s)
	start := func(name string) (*program.Program, string) {
		address := program.AddressFor(t)
		p, err := group.Start(name, binary(), "run", store, "--from="+end.Add(-past*time.Hour).Format(time.RFC3339),
			"--folder="+folder, "--postgres.url="+url, "--web.listen-address="+address)
		check(t, err)
		check(t, p.Ready(t.Context(), "http://"+address+"/-/healthy"))
		return p, "http://" + address + "/metrics"
	}
	first, page := start("first")
	second, other := start("second")
	// The archive reads an hour some minutes after its end, so the last hour may be missing.
	newest := func(page, sink string) float64 {
		return metric(t, page, `gpuledger_archive_newest_hour_timestamp_seconds{cluster="east",sink="`+sink+`"}`)
	}
	check(t, first.Wait(t.Context(), func() error {
		folders := metric(t, page, `gpuledger_archive_sink_up{sink="folder"}`) + metric(t, other, `gpuledger_archive_sink_up{sink="folder"}`)
		filed := min(newest(page, "postgres"), newest(other, "postgres"), max(newest(page, "folder"), newest(other, "folder")))
		if folders != 1 || filed < float64(end.Add(-time.Hour).Unix()) {
			return fmt.Errorf("%v replicas have locked the folder, hours are filed until %v", folders, filed)
		}
		return nil
	}))
	for _, p := range []*program.Program{second, first} {
		before := time.Now()
		p.Stop()
		if took := time.Since(before); took > time.Second {
			t.Errorf("%s ends %v after %v", p.Name, took, syscall.SIGTERM)
		}
	}
	var digests []string
	for _, row := range rows(t, folder, "hours") {
		digests = append(digests, row["digest"]+" | "+row["revision"])
	}
	filed := db.rows(t, "select digest, revision from hours order by hour")
	const both = past - 1 // the last hour may be in only one of the sinks
	if len(digests) < both || len(filed) < both {
		t.Fatalf("%d hours in the folder and %d in the database, want at least %d", len(digests), len(filed), both)
	}
	if diff := cmp.Diff(digests[:both], filed[:both]); diff != "" {
		t.Errorf("hours (-folder +database):\n%s", diff)
	}
}

func metric(t *testing.T, page, series string) float64 {
	t.Helper()
	response, err := http.Get(page)
	check(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	check(t, err)
	match := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(series) + " (.*)$").FindSubmatch(text)
	if match == nil {
		return 0
	}
	value, err := strconv.ParseFloat(string(match[1]), 64)
	check(t, err)
	return value
}
