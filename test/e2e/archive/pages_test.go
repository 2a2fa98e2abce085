//go:build e2e

package archive_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/program"
)

var (
	pagesGPUs  = flag.Int("pages.gpus", 0, "number of GPUs in TestPagesMemory; 0 skips the test")
	pagesDays  = flag.Int("pages.days", 31, "number of days in TestPagesMemory")
	pagesSinks = flag.String("pages.sinks", "SQLite,CSV,PostgreSQL", "sinks in TestPagesMemory")
	pagesBooks = flag.String("pages.books", "", "folder for the books of TestPagesMemory, empty for a temporary folder")
)

// maxPages is the limit for the resident memory of the command serve, in bytes.
const maxPages = 256 << 20

const (
	perNode  = 8
	perPod   = 12 // number of hours
	teams    = 20
	october  = "2026-10"
	pageWait = 2 * time.Minute
)

// fleetHour returns the rows of one hour. Each node has eight GPUs, and one pod uses all of them for twelve hours.
// Every tenth node is idle.
func fleetHour(gpus, n int) *table.Hour {
	start := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Hour)
	h := &table.Hour{Cluster: "east", Start: start}
	for i := range gpus {
		node := i / perNode
		g := table.GPU{
			Node: fmt.Sprintf("node-%04d", node), UUID: fmt.Sprintf("GPU-%08x-0000-4000-8000-%012x", i, i), Serial: serial(i), ChassisSerial: fmt.Sprintf("CHASSIS%05d", node),
			ChassisSlot: strconv.Itoa(i%perNode + 1), PCIBusID: fmt.Sprintf("00000000:%02X:00.0", 16*(i%perNode)+1), Model: []string{"NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"}[node%2],
			SystemUUID: fmt.Sprintf("4c4c4544-0000-0000-0000-%012x", node), First: start.Add(30 * time.Second), Last: start.Add(59*time.Minute + 30*time.Second), Scrapes: 60,
			Energy: 1_000_000_000 + int64(i), EnergySource: "counter", EnergyScope: "gpu", DRAMCorrectable: new(int64(i % 3)), PCIeReplays: new(int64(0)),
		}
		c := table.Charge{Node: g.Node, UUID: g.UUID, Serial: g.Serial, Energy: g.Energy}
		if node%10 == 0 {
			c.Reason = "idle"
		} else {
			team, pod := node%teams, fmt.Sprintf("train-%d-%d", node, n/perPod)
			c.Namespace, c.Pod, c.PodUID, c.Team = fmt.Sprintf("team-%02d", team), pod, "uid-"+pod, fmt.Sprintf("team-%02d", team)
			c.WorkloadKind, c.WorkloadName, c.WorkloadUID = "Job", fmt.Sprintf("train-%d", node), fmt.Sprintf("uid-%d", node)
			c.Exclusive, c.Idle, c.Held, c.GPUTime, c.Active, c.Busy = g.Energy/2, g.Energy/5, 3_600_000, 3_600_000, 3_000_000, 2_500_000
			c.Began, c.Ended = start, start.Add(59*time.Minute)
		}
		if i%perNode == 0 && c.Pod != "" {
			h.Pods = append(h.Pods, table.Pod{Namespace: c.Namespace, Pod: c.Pod, PodUID: c.PodUID, Node: c.Node, WorkloadKind: "Job", WorkloadName: c.WorkloadName, WorkloadUID: c.WorkloadUID, Requests: map[string]int64{"nvidia.com/gpu": perNode}})
		}
		h.GPUs, h.Charges = append(h.GPUs, g), append(h.Charges, c)
	}
	return sinktest.Complete(h)
}

func serial(i int) string { return fmt.Sprintf("16539240%05d", i) }

type pagesBook struct {
	name string
	// open returns the sink, the flag of the command serve for this sink, and a function that copies the first day to
	// the other days.
	open func(t *testing.T, dir string) (sink closer, flag string, repeat func())
}

func pagesKinds() []pagesBook {
	return []pagesBook{
		{"SQLite", func(t *testing.T, dir string) (closer, string, func()) {
			path := filepath.Join(dir, "gpuledger.db")
			sink, err := database.SQLite.Open(t.Context(), path, "")
			check(t, err)
			return sink, "--sqlite=" + path, func() {
				db := openFile(t, path)
				for _, pragma := range []string{"journal_mode = off", "synchronous = off", "cache_size = -500000"} {
					db.rows(t, "pragma "+pragma)
				}
				repeatDays(t, db, "strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', %s, '+%d days')", "date(%s, '+%d days')")
			}
		}},
		{"CSV", func(t *testing.T, dir string) (closer, string, func()) {
			sink, err := files.Open(dir, []string{"csv"})
			check(t, err)
			return sink, "--folder=" + dir, func() { repeatFiles(t, dir) }
		}},
		{"PostgreSQL", func(t *testing.T, _ string) (closer, string, func()) {
			u, db := startPostgres(t).create(t, "gpuledger")
			sink, err := database.Postgres.Open(t.Context(), u, "")
			check(t, err)
			return sink, "--postgres.url=" + u, func() {
				repeatDays(t, db, "%s + interval '%d days'", "%s + %d")
				db.rows(t, "vacuum analyze")
			}
		}},
	}
}

// repeatDays gives the copied rows other pods. moment is an SQL expression that adds days to a time. date is an SQL
// expression that adds days to a date.
func repeatDays(t *testing.T, db query, moment, date string) {
	t.Helper()
	for day := 1; day < *pagesDays; day++ {
		for _, of := range []table.Table{table.GPUHours, table.Charges, table.Pods, table.Hours, table.Days, table.GPUDays} {
			values := make([]string, len(of.Columns))
			for i, c := range of.Columns {
				switch {
				case c.Type == table.Time:
					values[i] = fmt.Sprintf(moment, c.Name, day)
				case c.Type == table.Date:
					values[i] = fmt.Sprintf(date, c.Name, day)
				case c.Name == "pod" || c.Name == "pod_uid":
					values[i] = fmt.Sprintf("case when %[1]s = '' then '' else %[1]s || '-%[2]d' end", c.Name, day)
				default:
					values[i] = c.Name
				}
			}
			when := "hour < '2026-10-02'"
			if of.Columns[1].Type == table.Date {
				when = "day = '2026-10-01'"
			}
			db.rows(t, fmt.Sprintf("insert into %s (%s) select %s from %[1]s where %[4]s", of.Name, strings.Join(of.Names(), ", "), strings.Join(values, ", "), when))
		}
		if day%5 == 0 {
			fmt.Printf("%d days are copied\n", day)
		}
	}
}

func repeatFiles(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*", "*", "date=2026-10-01", "*.csv"))
	check(t, err)
	pod := regexp.MustCompile(`\btrain-\d+-\d+\b`)
	for _, name := range names {
		text, err := os.ReadFile(name)
		check(t, err)
		for day := 1; day < *pagesDays; day++ {
			date := fmt.Sprintf("2026-10-%02d", day+1)
			later := bytes.ReplaceAll(text, []byte("2026-10-01"), []byte(date))
			to := strings.Replace(name, "2026-10-01", date, 1)
			check(t, os.MkdirAll(filepath.Dir(to), 0o755))
			check(t, os.WriteFile(to, pod.ReplaceAll(later, fmt.Appendf(nil, "${0}-%d", day)), 0o644))
		}
	}
}

func fileMonth(t *testing.T, sink closer, repeat func()) {
	t.Helper()
	began := time.Now()
	first, last := fleetHour(*pagesGPUs, 0), fleetHour(*pagesGPUs, 24**pagesDays-1)
	known, err := sink.Filed(t.Context(), last.Cluster, last.Start)
	check(t, err)
	if known != (table.Filed{}) {
		check(t, sink.Close())
		return // an earlier run has written the archive
	}
	for n := range 24 {
		h := fleetHour(*pagesGPUs, n)
		if known, err := sink.Filed(t.Context(), h.Cluster, h.Start); err != nil || known == (table.Filed{}) {
			check(t, errors.Join(err, sink.Replace(t.Context(), h)))
		}
	}
	check(t, sink.Close())
	fmt.Printf("a day of %d GPUs was filed in %.0f s\n", len(first.GPUs), time.Since(began).Seconds())
	repeat()
	fmt.Printf("%d days were copied in %.0f s\n", *pagesDays-1, time.Since(began).Seconds())
}

type measuredPage struct {
	path     string
	body     string // body of a search; empty for other pages
	statuses []int
}

func measuredPages() (all []measuredPage) {
	const period = "from=2026-10-01&to=2026-11-01"
	for _, path := range []string{
		"/", "/statement/" + october, "/statement/" + october + "?by=workload", "/statement/" + october + "?by=pod", "/statement/" + october + "?by=serial",
		"/idle/" + october, "/idle/" + october + "?by=pod", "/fleet/" + october, "/moves/" + october, "/missing", "/errors?" + period, "/hours/" + october, "/verify/" + october,
		"/board/" + serial(17), "/where/node-0002", "/history/" + serial(17), "/suspect/" + serial(17), "/ran?pod=team-02/train-2-1&" + period, "/ran?workload=train-2&" + period,
	} {
		all = append(all, measuredPage{path: path})
	}
	var list []string
	for i := range 500 {
		list = append(list, serial(i*(*pagesGPUs)/500))
	}
	return append(all,
		measuredPage{path: "/statement/" + october + "?by=pod,serial", statuses: []int{http.StatusOK, http.StatusRequestEntityTooLarge}}, // a large fleet may have too many rows
		measuredPage{path: "/search?q=1653924", statuses: []int{http.StatusNotFound}},                                                    // this page suggests names of all boards
		measuredPage{path: "/search", body: url.Values{"q": {strings.Join(list, "\n")}}.Encode()},
	)
}

// visit describes the status and the size of the response. It returns an error for an invalid status.
func (p measuredPage) visit(ctx context.Context, base string) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageWait)
	defer cancel()
	method := http.MethodGet
	if p.body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, base+p.path, strings.NewReader(p.body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	statuses := p.statuses
	if statuses == nil {
		statuses = []int{http.StatusOK}
	}
	if err == nil && !slices.Contains(statuses, response.StatusCode) {
		err = fmt.Errorf("status %d, must be %v", response.StatusCode, statuses)
	}
	return fmt.Sprintf("%d, %d kB", response.StatusCode, n>>10), err
}

// peak returns the maximum resident memory since VmHWM was reset, in bytes.
func peak(t *testing.T, pid int) uint64 {
	t.Helper()
	p, err := procfs.NewProc(pid)
	check(t, err)
	status, err := p.NewStatus()
	check(t, err)
	return status.VmHWM
}

// TestPagesMemory prints the memory and time that each page needs for a month.
func TestPagesMemory(t *testing.T) {
	if *pagesGPUs == 0 {
		t.Skip("this is a benchmark: make bench-web runs it")
	}
	for _, kind := range pagesKinds() {
		if !strings.Contains(*pagesSinks, kind.name) {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			dir := t.TempDir()
			if *pagesBooks != "" {
				dir = filepath.Join(*pagesBooks, kind.name)
				check(t, os.MkdirAll(dir, 0o755))
			}
			sink, flag, repeat := kind.open(t, dir)
			fileMonth(t, sink, repeat)
			testPagesMemory(t, kind.name, flag)
		})
	}
}

func testPagesMemory(t *testing.T, name, books string) {
	t.Helper()
	group, address := program.OpenFor(t), program.AddressFor(t)
	serve, err := group.Start("serve", binary(), "serve", books, "--web.listen-address="+address)
	check(t, err)
	base := "http://" + address
	check(t, serve.Ready(t.Context(), base+"/-/healthy"))
	fmt.Printf("\n%s, %d GPUs, %d days:\n\n| page | status | seconds | MiB |\n|---|---|---|---|\n", name, *pagesGPUs, *pagesDays)
	for _, page := range measuredPages() {
		check(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", serve.PID()), []byte("5"), 0o200)) // resets VmHWM
		began := time.Now()
		text, err := page.visit(t.Context(), base)
		most := peak(t, serve.PID())
		fmt.Printf("| `%s` | %s | %.1f | %d |\n", page.path, text, time.Since(began).Seconds(), most>>20)
		if err != nil {
			t.Errorf("%s: %v\n%s", page.path, err, serve.Tail())
		}
		if most > maxPages {
			t.Errorf("%s: %d MiB, the limit is %d MiB", page.path, most>>20, maxPages>>20)
		}
	}
	var all sync.WaitGroup
	check(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", serve.PID()), []byte("5"), 0o200))
	for _, path := range []string{"/statement/" + october + "?by=node", "/fleet/" + october + "?tz=Europe/Berlin", "/statement/" + october + "?by=team,model", "/idle/" + october + "?by=workload"} {
		all.Go(func() {
			if _, err := (measuredPage{path: path}).visit(t.Context(), base); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
	all.Wait()
	most := peak(t, serve.PID())
	fmt.Printf("| four at once | | | %d |\n", most>>20)
	if most > maxPages {
		t.Errorf("four pages at once: %d MiB, the limit is %d MiB", most>>20, maxPages>>20)
	}
}
