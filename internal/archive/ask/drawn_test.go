package ask_test

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const (
	drawnNodes, drawnSlots, drawnBoards = 3, 3, 5
	drawnTime                           = 14 * time.Hour
	// An exporter serves the series of a pod or job for this long after its end (--retention).
	retained = 5 * time.Minute
)

// tenure is a period in which a pod or a Slurm job used a board in one node.
type tenure struct {
	name       string // namespace/pod or manager/unit
	node       string
	start, end time.Time
	scraped    bool
}

type scrape struct {
	node       string
	at, before time.Time
}

// drawn is a random history of boards that move between slots, and of pods and jobs on these boards. The embedded store
// contains the samples.
type drawn struct {
	*foldtest.Store
	random  *rand.Rand
	places  map[string]string    // board in each slot; the key contains node and slot
	back    map[int]time.Time    // earliest return time of each removed board
	tenures map[int][]*tenure    // by board
	scrapes map[int][]scrape     // by board
	outage  map[string]time.Time // time until which each node is not scraped
	holders int
}

// Events happen at any second. Each node is scraped at its own second of the minute.
func draw(seed uint64) *drawn {
	d := &drawn{
		foldtest.NewStore(), rand.New(rand.NewPCG(seed, 0)), make(map[string]string), make(map[int]time.Time), make(map[int][]*tenure), make(map[int][]scrape),
		make(map[string]time.Time), 0,
	}
	phase := make(map[string]int)
	for n := range drawnNodes {
		phase[fmt.Sprint("n", n)] = d.random.IntN(60)
	}
	for b := range drawnBoards {
		d.back[b] = october
	}
	for second := range int(drawnTime / time.Second) {
		at := october.Add(time.Duration(second) * time.Second)
		for b := range drawnBoards {
			d.step(b, at)
		}
		for n := range drawnNodes {
			node := fmt.Sprint("n", n)
			if d.random.IntN(4*3600) == 0 {
				d.outage[node] = at.Add(time.Duration(d.random.IntN(2400)) * time.Second)
			}
			if second%60 == phase[node] && !at.Before(d.outage[node]) {
				d.scrape(node, at)
			}
		}
	}
	return d
}

// Both results are empty if the board is in no slot.
func (d *drawn) place(board int) (node, slot string) {
	for at, who := range d.places {
		if who == fmt.Sprint(board) {
			node, slot, _ = strings.Cut(at, " ")
		}
	}
	return node, slot
}

func (d *drawn) step(board int, at time.Time) {
	node, slot := d.place(board)
	if back, away := d.back[board]; away {
		place := fmt.Sprintf("n%d %d", d.random.IntN(drawnNodes), d.random.IntN(drawnSlots))
		if _, taken := d.places[place]; !taken && !at.Before(back) {
			d.places[place] = fmt.Sprint(board)
			delete(d.back, board)
		}
		return
	}
	leaves := d.random.IntN(2*3600) == 0
	held := 0
	for _, t := range d.tenures[board] {
		if !t.end.IsZero() {
			continue
		}
		if held++; leaves || d.random.IntN(1500) == 0 {
			t.end = at
		}
	}
	switch {
	case leaves:
		delete(d.places, node+" "+slot)
		d.back[board] = at.Add(time.Duration(60+d.random.IntN(3600)) * time.Second)
	case held < 3 && d.random.IntN(900) == 0:
		d.holders++
		name := fmt.Sprintf("ml/p%d", d.holders)
		if d.random.IntN(3) == 0 {
			name = fmt.Sprintf("slurm/%d", d.holders)
		}
		d.tenures[board] = append(d.tenures[board], &tenure{name: name, node: node, start: at})
	}
}

// scrape adds the samples of one exporter. They include the pods and jobs that ended within the retention.
func (d *drawn) scrape(node string, at time.Time) {
	for b := range drawnBoards {
		common := []string{"cluster", "east", "node", node, "UUID", fmt.Sprint("GPU-", b), "serial", fmt.Sprint("S", b)}
		if now, slot := d.place(b); now == node {
			d.Add(at, 1, "gpuledger_placement_info", slices.Concat(common, []string{"chassis_serial", "C" + node, "pci_bus_id", slot})...)
			d.Add(at, at.Sub(october).Seconds()*100, "gpuledger_board_energy_joules_total", common...)
			s := scrape{node: node, at: at}
			if all := d.scrapes[b]; len(all) > 0 && all[len(all)-1].node == node {
				s.before = all[len(all)-1].at
			}
			d.scrapes[b] = append(d.scrapes[b], s)
		}
		for _, t := range d.tenures[b] {
			end := at
			if !t.end.IsZero() {
				end = t.end
			}
			if t.node != node || at.Sub(end) > retained {
				continue
			}
			t.scraped = true
			manager, name, _ := strings.Cut(t.name, "/")
			metric, labels := "gpuledger_unit_allocation_", []string{"manager", manager, "unit", name}
			if manager == "ml" {
				metric, labels = "gpuledger_allocation_", []string{"namespace", manager, "pod", name, "pod_uid", "uid-" + name}
			}
			d.Add(at, end.Sub(t.start).Seconds()*10, metric+"energy_joules_total", slices.Concat(common, labels)...)
			d.Add(at, end.Sub(t.start).Seconds(), metric+"seconds_total", slices.Concat(common, labels)...)
		}
	}
}

// last returns the last scrape of a board at or before a given time. ok is false if there is no such scrape.
func (d *drawn) last(board int, until time.Time) (s scrape, ok bool) {
	for _, s := range slices.Backward(d.scrapes[board]) {
		if !s.at.After(until) {
			return s, true
		}
	}
	return s, false
}

func (d *drawn) checkRow(t *testing.T, board int, asked time.Time, row map[string]any) {
	t.Helper()
	s, _ := d.last(board, asked)
	if row["node"] != s.node || row["last_seen"] != s.at.Format("2006-01-02T15:04:05.000Z") {
		t.Errorf("board %d at %v: in %v, last seen %v, want %s at %v", board, asked, row["node"], row["last_seen"], s.node, s.at)
	}
	if present := asked.Sub(s.at) <= 5*time.Minute; present != (row["state"] == "present") {
		t.Errorf("board %d at %v: %v, last seen %v", board, asked, row["state"], s.at)
	}
	now, past := strings.Fields(row["holders"].(string)), strings.Fields(row["past_holders"].(string))
	for _, x := range d.tenures[board] {
		ended := !x.end.IsZero() && !x.end.After(s.at)
		holds := x.node == s.node && x.start.Before(s.at) && !ended
		isNow, isPast := slices.Contains(now, x.name), slices.Contains(past, x.name)
		switch {
		case holds && !isNow, isNow && isPast:
			t.Errorf("board %d at %v: %s holds it at %v since %v, listed as holder: %v, as past holder: %v", board, asked, x.name, s.at, x.start, isNow, isPast)
		case isNow && (x.node != s.node || ended && !x.end.After(s.before) || x.start.After(s.at)):
			t.Errorf("board %d at %v, scraped at %v and %v: %s on %s is a holder, it ended at %v", board, asked, s.before, s.at, x.name, x.node, x.end)
		case isPast && (holds || x.end.Before(s.at.Add(-time.Hour-retained)) || x.start.After(s.at)):
			t.Errorf("board %d at %v: %s (%v to %v) is a past holder at %v", board, asked, x.name, x.start, x.end, s.at)
		case ended && x.scraped && x.end.After(s.at.Add(-50*time.Minute)) && !isNow && !isPast && !d.unseen(board, x, s.at):
			t.Errorf("board %d at %v: %s (%v to %v) is no past holder at %v", board, asked, x.name, x.start, x.end, s.at)
		}
	}
}

// unseen reports whether an outage hides a pod or job: its node was not scraped while it ran in the hour before a time.
func (d *drawn) unseen(board int, x *tenure, until time.Time) bool {
	return !slices.ContainsFunc(d.scrapes[board], func(s scrape) bool {
		return s.node == x.node && s.at.After(x.start) && s.at.Before(x.end) && s.at.After(until.Add(-time.Hour)) && !s.at.After(until)
	})
}

func drawnSeeds() uint64 {
	if testing.Short() {
		return 1
	}
	return 2
}

// TestWhereDrawn compares answers of the command "where" with random histories. It asks for serial numbers and nodes,
// at random times.
func TestWhereDrawn(t *testing.T) {
	for seed := range drawnSeeds() {
		d := draw(seed)
		var now time.Time
		server := httptest.NewServer(foldtest.API{Store: d.Store, Hidden: func(_ map[string]string, at time.Time) bool { return at.After(now) }})
		moved, held := 0, 0
		for i := range 40 {
			asked := october.Add(2*time.Hour + time.Duration(d.random.Int64N(int64(drawnTime-2*time.Hour)))).Truncate(time.Second)
			if i%4 == 0 {
				asked = asked.Truncate(time.Hour)
			}
			name := fmt.Sprint("S", d.random.IntN(drawnBoards))
			if i%5 == 0 {
				name = fmt.Sprint("n", d.random.IntN(drawnNodes))
			}
			args := []string{"where", name, "--since=1d", "--store.url=" + server.URL, "-o", "json"}
			if now = asked; i%2 == 0 {
				now = october.AddDate(0, 0, 3)
				args = append(args, "--at="+asked.Format(time.RFC3339))
			}
			r := runAt(t, now, "", args...)
			var rows []map[string]any
			if r.status == 0 {
				rows = r.rows()
			}
			found := make(map[int]bool)
			for _, row := range rows {
				board := int(row["serial"].(string)[1] - '0')
				found[board] = true
				d.checkRow(t, board, asked, row)
				if strings.Contains(row["holders"].(string), "/") {
					held++
				}
				if strings.Contains(row["past_holders"].(string), "/") {
					moved++
				}
			}
			for b := range drawnBoards {
				s, ok := d.last(b, asked)
				if want := ok && (name == fmt.Sprint("S", b) || name == s.node); want != found[b] {
					t.Errorf("seed %d: where %s at %v: board %d in %s is listed: %v, exit status %d\n%s%s", seed, name, asked, b, s.node, found[b], r.status, r.out, r.err)
				}
			}
		}
		server.Close()
		if moved < 5 || held < 5 {
			t.Errorf("seed %d: %d rows have past holders, %d have holders", seed, moved, held)
		}
	}
}

// TestWhereDrawnInArchive compares answers from an archive with a random history, at full hours. An archive contains
// the exact times of the first and last scrape, but only the hours of pods and jobs.
func TestWhereDrawnInArchive(t *testing.T) {
	d := draw(7)
	var hours []*table.Hour
	for n := range int(drawnTime / time.Hour) {
		h, err := fold.Fold(d.Input(october.Add(time.Duration(n) * time.Hour)))
		check(t, err)
		hours = append(hours, h)
	}
	folder := archived(t, hours...)
	held := 0
	for n := 2; n <= len(hours); n++ {
		asked := october.Add(time.Duration(n) * time.Hour)
		for b := range drawnBoards {
			s, _ := d.last(b, asked)
			r := run(t, "where", fmt.Sprint("S", b), "--books="+folder, "--at="+asked.Format(time.RFC3339), "-o", "csv")
			r.lists([]string{"node", "last_seen"}, s.node+","+s.at.Format("2006-01-02T15:04:05.000Z"))
			holders := strings.Fields(r.columns("holders")[0])
			for _, x := range d.tenures[b] {
				ended := !x.end.IsZero() && !x.end.After(s.at)
				// The last increase of an ended pod's or job's counter may be in this hour.
				mayHold := x.node == s.node && !x.start.After(s.at.Truncate(time.Hour).Add(time.Hour)) && (!ended || !x.end.Before(s.at.Truncate(time.Hour).Add(-retained)))
				mustHold := x.node == s.node && x.start.Before(s.at) && !ended
				holds := slices.Contains(holders, x.name)
				if holds {
					held++
				}
				if holds && !mayHold || !holds && mustHold {
					t.Errorf("board %d at %v, last seen on %s at %v: %s on %s (%v to %v) is listed as a holder: %v", b, asked, s.node, s.at, x.name, x.node, x.start, x.end, holds)
				}
			}
		}
	}
	if held < 20 {
		t.Errorf("%d holders", held)
	}
}
