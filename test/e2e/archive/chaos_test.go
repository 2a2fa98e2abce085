//go:build e2e

package archive_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/test/program"
)

var (
	chaos     = flag.Duration("chaos", 40*time.Second, "duration of the attack in TestChaos, halved in a short run; make chaos-archive uses ten minutes")
	chaosSeed = flag.Uint64("chaos.seed", 0, "seed of TestChaos, default is random")
)

const (
	chaosGPUs  = 16
	chaosHours = 36
	// maxWatts is the maximum power of a GPU in [foldtest.Steady].
	maxWatts = 1000
)

// TestChaos runs an archive with a database and a folder on a separate disk. Senders post hostile events, the store
// returns hostile responses, the disk fills, the database is killed, and the archive is stopped. Each sink must contain
// every event that the archive accepted with status 200 exactly once. Every hour must contain the energy of the
// simulated fleet.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-chaos=%v -chaos.seed=%d", *chaos, seed)
	disk := newDisk(t)
	end := time.Now().UTC().Truncate(time.Hour)
	from := end.Add(-chaosHours * time.Hour)
	fleet := foldtest.Steady{GPUs: chaosGPUs, Start: from.Add(-time.Hour).Truncate(24 * time.Hour), End: end.Add(2 * time.Hour)}
	store := &hostileStore{honest: foldtest.API{Store: fleet}, rand: rand.New(rand.NewPCG(seed, 1))}
	server := httptest.NewServer(store)
	defer server.Close()
	database := startPostgres(t)
	url, db := database.create(t, "chaos")
	a := newChaosArchive(t, server.URL, disk.folder, url, from)
	a.start()

	store.hostile.Store(true)
	attack, stop := &attack{archive: a, statuses: make(map[int]int)}, make(chan struct{})
	var senders sync.WaitGroup
	honest := &honestSender{archive: a, sent: make(map[string]bool)}
	for i := range 3 {
		senders.Go(func() { attack.run(rand.New(rand.NewPCG(seed, uint64(10+i))), stop) })
	}
	senders.Go(func() { honest.run(stop) })
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		disturb(t, a, disk, database, *chaos/4)
	}
	await(t, 5*time.Minute, func() error {
		if db.rows(t, "select count(*) from hours")[0] == "0" {
			return errors.New("no hour was filed during the attack")
		}
		return nil
	})
	close(stop)
	senders.Wait()
	store.hostile.Store(false)
	t.Logf("%d events were accepted, hostile requests got %v, %d hostile responses were read", len(honest.sent), attack.statuses, store.responses.Load())

	if len(honest.sent) == 0 || store.responses.Load() == 0 {
		t.Error("the attack had no effect")
	}
	a.awaitEmptyQueues()
	a.stop()
	a.allOnce(honest.sent, db)
	possible(t, db, fleet)
	again(t, server.URL, disk.folder, url, from, end, fleet, db)
}

func disturb(t *testing.T, a *chaosArchive, disk *disk, database *server, within time.Duration) {
	t.Helper()
	step := within / 8
	wait := func() { <-time.After(step) }
	wait()
	disk.fill()
	wait()
	disk.empty()
	wait()
	database.stop()
	wait()
	a.stop()
	a.start()
	wait()
	database.start(t)
	wait()
	disk.fill()
	database.stop()
	wait()
	disk.empty()
	database.start(t)
	wait()
}

type disk struct {
	t               *testing.T
	folder, ballast string
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	folder := t.TempDir()
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=32m,mode=0755"); err != nil {
		t.Skipf("cannot mount a small file system, which needs root: %v", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(folder, unix.MNT_DETACH)) })
	return &disk{t, folder, filepath.Join(folder, "ballast")}
}

func (d *disk) fill() {
	file, err := os.Create(d.ballast)
	if err != nil {
		return // the disk is full
	}
	defer file.Close()
	_, _ = io.Copy(file, io.LimitReader(zeros{}, 1<<30))
}

func (d *disk) empty() { _ = os.Remove(d.ballast) }

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

type chaosArchive struct {
	t       *testing.T
	group   *program.Group
	address string
	folder  string
	args    []string
	dead    string // dead-letter file
	running *program.Program
}

const chaosToken = "2b7e151628aed2a6abf7158809cf4f3c"

func newChaosArchive(t *testing.T, store, folder, database string, from time.Time) *chaosArchive {
	t.Helper()
	dir, address := t.TempDir(), program.AddressFor(t)
	tokens, dead := filepath.Join(dir, "tokens"), filepath.Join(dir, "dead-letters")
	check(t, os.WriteFile(tokens, []byte("east "+chaosToken+"\n"), 0o600))
	return &chaosArchive{t: t, group: program.OpenFor(t), address: address, folder: folder, dead: dead, args: []string{
		"run", "--store.url=" + store, "--store.timeout=5s", "--from=" + from.Format(time.RFC3339), "--web.listen-address=" + address,
		"--folder=" + folder, "--postgres.url=" + database, "--events.receive", "--events.token-file=" + tokens, "--events.dead-letter=" + dead,
	}}
}

func (a *chaosArchive) start() {
	a.t.Helper()
	var err error
	a.running, err = a.group.Start("archive", binary(), a.args...)
	check(a.t, err)
	check(a.t, a.running.Ready(a.t.Context(), "http://"+a.address+"/-/healthy"))
}

func (a *chaosArchive) stop() { a.running.Stop() }

// post returns 0 if there is no response.
func (a *chaosArchive) post(cluster, token, encoding string, body io.Reader) int {
	request, err := http.NewRequest(http.MethodPost, "http://"+a.address+"/api/v1/events?cluster="+cluster, body)
	if err != nil {
		return 0
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if encoding != "" {
		request.Header.Set("Content-Encoding", encoding)
	}
	response, err := (&http.Client{Timeout: time.Minute}).Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

func (a *chaosArchive) awaitEmptyQueues() {
	a.t.Helper()
	for _, sink := range []string{"folder", "postgres"} {
		await(a.t, 5*time.Minute, func() error {
			if metric(a.t, "http://"+a.address+"/metrics", fmt.Sprintf("gpuledger_archive_event_queue_bytes{sink=%q}", sink)) > 0 {
				return fmt.Errorf("events are still queued for the sink %s", sink)
			}
			return nil
		})
	}
}

// allOnce checks that each accepted event is in each sink exactly once. If an archive was stopped before it wrote an
// event to a sink, the dead-letter file must contain the event with the name of the sink.
func (a *chaosArchive) allOnce(sent map[string]bool, db query) {
	a.t.Helper()
	counts := map[string]map[string]int{"folder": {}, "postgres": {}}
	for _, row := range rows(a.t, a.folder, "events") {
		counts["folder"][row["id"]]++
	}
	for _, id := range db.rows(a.t, "select id from events") {
		counts["postgres"][id]++
	}
	dead := a.deadLetters()
	for sink, count := range counts {
		missing := 0
		for id := range sent {
			switch n := count[id]; {
			case n == 0 && !dead[sink+" "+id]:
				missing++
			case n > 1:
				a.t.Errorf("%s has event %s %d times", sink, id, n)
			}
		}
		if missing > 0 {
			a.t.Errorf("%s lacks %d of %d accepted events, and the dead-letter file lacks them as well", sink, missing, len(sent))
		}
	}
}

func (a *chaosArchive) deadLetters() map[string]bool {
	all := make(map[string]bool)
	text, err := os.ReadFile(a.dead)
	if err != nil {
		return all
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var letter struct {
			Sink  string
			Event struct{ ID string }
		}
		check(a.t, json.Unmarshal(lines.Bytes(), &letter))
		all[letter.Sink+" "+letter.Event.ID] = true
	}
	return all
}

type honestSender struct {
	archive *chaosArchive
	sent    map[string]bool // ids of the accepted events
}

func (s *honestSender) run(stop <-chan struct{}) {
	for n := 0; ; n++ {
		id := fmt.Sprintf("pod-%d/phase/Running", n)
		line := fmt.Sprintf(`{"event":"phase","id":%q,"at":%q,"namespace":"ml","pod":"pod-%d","from":"Pending","to":"Running"}`+"\n",
			id, time.Now().UTC().Format(time.RFC3339Nano), n)
		for s.archive.post("east", chaosToken, "", strings.NewReader(line)) != http.StatusOK {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
		s.sent[id] = true
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// possible checks that no hour in the database has more energy than the fleet could have used.
func possible(t *testing.T, db query, fleet foldtest.Steady) {
	t.Helper()
	limit := int64(maxWatts * chaosGPUs * 3600 * 1000)
	if found := db.rows(t, fmt.Sprintf("select hour, energy_mj from hours where energy_mj < 0 or energy_mj > %d", limit)); len(found) > 0 {
		t.Errorf("hours with impossible energy: %v", found)
	}
	if found := db.rows(t, "select hour, node, uuid, energy_mj from charges where energy_mj < 0"); len(found) > 0 {
		t.Errorf("negative charges: %v", found)
	}
	t.Logf("%s hours were filed during the attack", db.rows(t, "select count(*) from hours")[0])
}

// again repeats the run for all hours with a store that returns correct responses. It compares the energy of each hour
// with the simulated energy.
func again(t *testing.T, store, folder, database string, from, end time.Time, fleet foldtest.Steady, db query) {
	t.Helper()
	succeed(t, "once", "--again", "--log.level=warn", "--month.close-after=0", "--store.url="+store,
		"--folder="+folder, "--postgres.url="+database, "--from="+from.Format(time.RFC3339), "--until="+end.Add(-time.Hour).Format(time.RFC3339))
	for hour := from; hour.Before(end.Add(-time.Hour)); hour = hour.Add(time.Hour) {
		want := fmt.Sprint(fleet.Energy(hour, hour.Add(time.Hour)))
		text := fmt.Sprintf("select energy_mj from hours where hour = '%s'", hour.Format(time.RFC3339))
		if got := db.rows(t, text); len(got) != 1 || got[0] != want {
			t.Errorf("hour %s has %v mJ, want %s", hour.Format(time.RFC3339), got, want)
		}
	}
}
