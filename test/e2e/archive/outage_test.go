//go:build e2e

package archive_test

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/program"
)

var outage = flag.Duration("outage", time.Second, "time for which the database is down in TestDatabaseOutage; make e2e-outage uses an hour")

// maxRetry is the maximum time that the archive takes, after a failure of a sink, to retry and write the missing hours.
const maxRetry = 6 * time.Minute

// TestDatabaseOutage kills a database while the archive runs. After the outage, the database must contain the same rows
// as a folder and as a database without an outage.
func TestDatabaseOutage(t *testing.T) {
	t.Parallel()
	const past = 48
	end := time.Now().UTC().Truncate(time.Hour)
	from := end.Add(-past * time.Hour)
	s := foldtest.NewStore()
	fleet := foldtest.NewFleet(s, from, 9, 4, "cluster", "east")
	// The store also contains samples for the duration of the outage. Their timestamps are in the future, so the
	// archive does not query them yet.
	fleet.Run(int((time.Since(from) + *outage + 2*maxRetry).Minutes()))
	group, folder, database := program.OpenFor(t), t.TempDir(), startPostgres(t)
	url, db := database.create(t, "gpuledger")
	store, address := "--store.url="+simulated(t, s), program.AddressFor(t)
	run, err := group.Start("archive", binary(), "run", store, "--from="+from.Format(time.RFC3339), "--folder="+folder,
		"--postgres.url="+url, "--web.listen-address="+address)
	check(t, err)
	up := func() float64 {
		return metric(t, "http://"+address+"/metrics", `gpuledger_archive_sink_up{sink="postgres"}`)
	}
	check(t, run.Ready(t.Context(), "http://"+address+"/-/healthy"))
	check(t, run.Wait(t.Context(), func() error {
		if found, err := db(t.Context(), "select hour from hours limit 1"); err != nil || len(found) == 0 {
			return fmt.Errorf("no hour is filed yet: %w", err)
		}
		return nil
	}))
	before := len(filedHours(t, db))
	database.stop()
	stopped := time.Now()
	<-time.After(*outage)
	if up() != 0 && *outage > time.Minute {
		t.Error("the archive does not report that the database is down")
	}
	inFolder := len(rows(t, folder, "hours"))
	database.start(t)
	started := time.Now()
	t.Logf("the database was down for %v; it had %d hours before, the folder %d after", started.Sub(stopped).Round(time.Second), before, inFolder)
	await(t, maxRetry, func() error {
		if n := len(filedHours(t, db)); n < inFolder || up() != 1 {
			return fmt.Errorf("the database has %d hours, the folder %d", n, inFolder)
		}
		return nil
	})
	t.Logf("all hours are filed %v after its start", time.Since(started).Round(time.Second))
	run.Stop()
	undisturbedRows(t, db, folder, from, store)
}

func filedHours(t *testing.T, db query) []string {
	return db.rows(t, "select hour, revision, digest, gpus, charges, energy_mj from hours order by hour")
}

// undisturbedRows compares the database with the folder of the same run. It also compares it with a folder that is
// written now, without an outage.
func undisturbedRows(t *testing.T, db query, folder string, from time.Time, store string) {
	t.Helper()
	until := from.Add(time.Duration(len(filedHours(t, db))) * time.Hour)
	undisturbed := t.TempDir()
	succeed(t, "once", store, "--folder="+undisturbed,
		"--from="+from.Format(time.RFC3339), "--until="+until.Format(time.RFC3339))
	var manifest []string
	for _, row := range rows(t, undisturbed, "hours") {
		at, err := time.Parse(time.RFC3339, row["hour"])
		check(t, err)
		manifest = append(manifest, fmt.Sprintf("%s | %s | %s | %s | %s | %s", at.Format("2006-01-02 15:04"), row["revision"], row["digest"], row["gpus"], row["charges"], row["energy_mj"]))
	}
	if diff := cmp.Diff(manifest, filedHours(t, db)); diff != "" {
		t.Errorf("hours (-undisturbed +database):\n%s", diff)
	}
	// The folder of the run may contain hours that ended after the undisturbed run.
	if diff := cmp.Diff(rows(t, undisturbed, "charges"), rows(t, folder, "charges")[:len(rows(t, undisturbed, "charges"))]); diff != "" {
		t.Errorf("charges (-undisturbed +folder):\n%s", diff)
	}
	charges := sum(t, rows(t, undisturbed, "charges"), "energy_mj", "node", "uuid", "pod_uid", "reason")
	var want []string
	for key, energy := range charges {
		want = append(want, key+" "+strconv.FormatInt(energy, 10))
	}
	slices.Sort(want)
	got := db.rows(t, `select concat_ws(' ', node, uuid, pod_uid, reason, sum(energy_mj)) from charges group by node, uuid, pod_uid, reason`)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("charges (-undisturbed +database):\n%s", diff)
	}
}
