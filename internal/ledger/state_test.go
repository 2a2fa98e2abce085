package ledger_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// A restart between two settlements must not lose or add energy.
func TestRestore(t *testing.T) {
	p := process(21, in(train))
	l := newLedger()
	before := ask(t, l, look(0, []*gpu.Process{p}, holds(train, 1)), look(1, []*gpu.Process{p}, holds(train, 1)))
	l.Observe(look(2, []*gpu.Process{p, process(22, gpu.Owner{})}, holds(train, 1))) // not settled before the restart
	l = ledger.Restore(ledger.Config{Tick: time.Second, Retention: 5 * time.Minute}, l.State())
	if diff := cmp.Diff(before, bookOf(l, uuid)); diff != "" {
		t.Errorf("restored book (-saved +restored):\n%s", diff)
	}
	after := ask(t, l, look(3, []*gpu.Process{p}, holds(train, 1)))
	if after.Energy != 900_000 || after.Accounts[0].Energy[gpu.Exclusive] != 900_000 {
		t.Errorf("book after the restart: %+v, want 900000 mJ exclusive", after)
	}
}

// The state has the format of the first version, which contained no idle power.
func TestStateOfFirstEdition(t *testing.T) {
	lines := []string{
		`{"uuid":"` + uuid + `","book":{"opened":"2027-01-15T08:00:00Z","settled":{"wall":"2027-01-15T08:00:01Z","boot":3601000000000},"energy":300000,` +
			`"unattributed":[0,0,0,0,0],"retired":0,"resets":0,"rejected":0,"base":{"at":{"wall":"2027-01-15T08:00:01Z","boot":3601000000000},"energy":1300000}}}`,
		`{"account":{"kind":"pod","scope":"ml","name":"train-0","uid":"uid-train","part":"main","opened":"2027-01-15T08:00:00Z",` +
			`"energy":[300000,0,0],"idle":0,"allocated":1000000000,"active":0,"last_alive":3601000000000}}`,
	}
	var saved ledger.Builder
	for _, line := range lines {
		var r ledger.Record
		if err := errors.Join(json.Unmarshal([]byte(line), &r), saved.Add(r)); err != nil {
			t.Fatal(err)
		}
	}
	if err := saved.State.Check(time.Hour + 2*time.Second); err != nil {
		t.Fatal(err)
	}
	l := ledger.Restore(ledger.Config{Tick: time.Second, Retention: 5 * time.Minute}, saved.State)
	var b *gpu.Book
	for s := 2.0; s < 12; s++ {
		b = ask(t, l, resting(look(s, both[:1], holds(train, 1))))
	}
	if a := b.Accounts[0]; a.Energy[gpu.Exclusive] != b.Energy-b.Unattributed[gpu.Gap] || b.IdlePower != 300 || b.Energy != 11*300_000 {
		t.Errorf("book: %+v, want 3300000 mJ, exclusive except for the gap, and an idle power of 300 W", b)
	}
}

// A GPU has no book if its counter was never read.
func TestNotOpen(t *testing.T) {
	l := newLedger()
	l.Observe(unread(look(0, nil)))
	l.Settle(at(0), unresolved)
	if b := bookOf(l, uuid); b != nil {
		t.Errorf("book: %+v, want none", b)
	}
}

// Every part of a state must be saved.
func TestRecords(t *testing.T) {
	book := func(containers ...gpu.Account) *ledger.BookState {
		return &ledger.BookState{Base: ledger.Mark{Energy: 5}, Book: gpu.Book{Energy: 100, Accounts: containers}}
	}
	account := func(c gpu.Owner, pids ...uint32) gpu.Account {
		a := gpu.Account{AccountKey: gpu.AccountKey{Owner: c}}
		for _, pid := range pids {
			a.Processes = append(a.Processes, gpu.ProcessAccount{ProcessID: gpu.ProcessID{PID: pid}, Name: "a b)\n\x00\"\u2028\uFFFD"})
		}
		return a
	}
	want := ledger.State{Books: map[string]*ledger.BookState{
		"GPU-1": book(account(train, 1, 2), account(serve), account(gpu.Owner{}, 3)), "GPU-2": book(), "GPU-3": book(account(train, 1)),
	}}
	var got ledger.Builder
	for r := range want.Records() {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var read ledger.Record
		if err := errors.Join(json.Unmarshal(data, &read), got.Add(read)); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
	}
	if diff := cmp.Diff(want, got.State, cmpopts.IgnoreUnexported(ledger.Mark{})); diff != "" {
		t.Errorf("state (-saved +read):\n%s", diff)
	}
}

func TestSomeRecords(t *testing.T) {
	p := process(21, in(train))
	l := newLedger()
	for second := range 2 {
		for _, of := range []string{uuid, "GPU-other"} {
			o := look(float64(second), []*gpu.Process{p})
			o.UUID = of
			l.Observe(o)
		}
	}
	l.Settle(at(1), unresolved)
	const all = 6 // one book, one account and one process for each of two GPUs
	for most := 1; most <= all; most++ {
		got := 0
		for range l.State().Records() {
			if got++; got == most {
				break
			}
		}
		if got != most {
			t.Errorf("%d records, want %d", got, most)
		}
	}
}

func TestStrayRecords(t *testing.T) {
	book := func() ledger.Record { return ledger.Record{UUID: uuid, Book: &ledger.BookState{}} } // Add changes the record, so each call returns a new record
	container, process := ledger.Record{Account: &ledger.AccountRecord{}}, ledger.Record{Process: &ledger.ProcessRecord{}}
	tests := map[string][]ledger.Record{
		"a book that is null":           {{UUID: uuid}},
		"an account without a book":     {container},
		"a process without a book":      {process},
		"a process without a container": {book(), process},
		"a second book":                 {book(), book()},
		"nothing":                       {book(), {}},
		"nothing in a container":        {book(), container, {}},
	}
	for name, records := range tests {
		var b ledger.Builder
		var err error
		for _, r := range records {
			err = b.Add(r)
		}
		if err == nil {
			t.Errorf("%s: Add returns no error", name)
		}
	}
}

func TestPublished(t *testing.T) {
	p := process(21, in(train))
	l := newLedger()
	shown := ask(t, l, look(0, []*gpu.Process{p}), look(1, []*gpu.Process{p}))
	saved := l.State()
	ask(t, l, look(2, []*gpu.Process{p}))
	ask(t, ledger.Restore(ledger.Config{}, saved), look(2, []*gpu.Process{p}))
	want := gpu.ByMethod{gpu.Exclusive: 300_000}
	for name, a := range map[string]gpu.Account{"book": shown.Accounts[0], "state": saved.Books[uuid].Accounts[0]} {
		if a.Energy != want || a.Processes[0].Energy != want {
			t.Errorf("%s: the container has %v now, its process %v; want %v", name, a.Energy, a.Processes[0].Energy, want)
		}
	}
}

// A published book must not change in two cases. An observation without a settlement happens before the first interval
// of the GPU is settled. A settlement without an observation happens while the GPU does not respond.
func TestPublishedBetween(t *testing.T) {
	p, late := process(21, in(train)), process(22, gpu.Owner{})
	tests := map[string]func(*ledger.Ledger){
		"look":       func(l *ledger.Ledger) { l.Observe(look(3, []*gpu.Process{p, late}, holds(train, 1))) },
		"settlement": func(l *ledger.Ledger) { l.Settle(at(30), unresolved) },
	}
	for name, goOn := range tests {
		l := newLedger()
		ask(t, l, look(0, []*gpu.Process{p}), look(1, []*gpu.Process{p}), look(2, []*gpu.Process{p, late}, holds(train, 1)))
		shown := *bookOf(l, uuid)
		want := shown.Accounts[0]
		want.Processes = slices.Clone(want.Processes)
		goOn(l)
		if diff := cmp.Diff(want, shown.Accounts[0]); diff != "" {
			t.Errorf("published account after a %s (-before +after):\n%s", name, diff)
		}
		if diff := cmp.Diff(want, bookOf(l, uuid).Accounts[0]); diff == "" {
			t.Errorf("after a %s the current account is unchanged", name)
		}
	}
}

// If the state does not contain the last reading of a book, the ledger must not add energy.
func TestNoBase(t *testing.T) {
	l := newLedger()
	ask(t, l, look(0, nil), look(1, nil))
	saved := l.State()
	b := saved.Books[uuid]
	b.Base = ledger.Mark{}
	saved.Books[uuid] = b
	if err := saved.Check(at(9).Boot); err == nil {
		b := ask(t, ledger.Restore(ledger.Config{Tick: time.Second, Retention: time.Minute}, saved), look(2, nil))
		t.Errorf("book continues with %d mJ, saved %d mJ", b.Energy, saved.Books[uuid].Energy)
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*ledger.BookState)
		want  string
	}{
		{"sound", func(*ledger.BookState) {}, ""},
		{"out of balance", func(b *ledger.BookState) { b.Energy++ }, "the board's energy is 101 mJ, but the sum of the accounts is 100 mJ"},
		{"retired", func(b *ledger.BookState) { b.Energy, b.Retired = 99, -1 }, "an amount is negative"},
		{"unattributed", func(b *ledger.BookState) { b.Energy, b.Unattributed[gpu.Gap] = 99, -1 }, "an amount is negative"},
		{"energy", func(b *ledger.BookState) { b.Accounts[0].Energy = gpu.ByMethod{71, -1, 0} }, "an amount is negative"},
		{"idle", func(b *ledger.BookState) { b.Accounts[0].Idle = -1 }, "an amount is negative"},
		{"allocated", func(b *ledger.BookState) { b.Accounts[0].Allocated = -1 }, "an amount is negative"},
		{"GPU time", func(b *ledger.BookState) { b.Accounts[0].GPUTime = -1 }, "an amount is negative"},
		{"active", func(b *ledger.BookState) { b.Accounts[0].Active = -1 }, "an amount is negative"},
		{"unsampled", func(b *ledger.BookState) { b.Unsampled = new(time.Duration(-1)) }, "an amount is negative"},
		{"process", func(b *ledger.BookState) { b.Accounts[0].Processes[0].Energy[gpu.Shared] = -1 }, "an amount is negative"},
		{"out of order", func(b *ledger.BookState) { slices.Reverse(b.Accounts) }, "the accounts are not sorted"},
		{"one key twice", func(b *ledger.BookState) { b.Accounts[0].AccountKey = b.Accounts[1].AccountKey }, "the accounts are not sorted"},
		{"no base", func(b *ledger.BookState) { b.Base = ledger.Mark{} }, "the book is settled up to 1h0m0s after the boot, but its base is 0 mJ at 0s"},
		{"of the future", func(b *ledger.BookState) { b.Settled, b.Base.At = at(10), at(10) }, "the book is settled up to 1h0m10s after the boot, but the boot was only 1h0m9s ago"},
		{"a base of less than nothing", func(b *ledger.BookState) { b.Base.Energy = -1 }, "the book is settled up to 1h0m0s after the boot, but its base is -1 mJ at 1h0m0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := ledger.BookState{Base: ledger.Mark{At: at(0), Energy: 5}, Book: gpu.Book{Energy: 100, Settled: at(0), Accounts: []gpu.Account{
				{AccountKey: gpu.AccountKey{Owner: train}, Energy: gpu.ByMethod{70}, Processes: []gpu.ProcessAccount{{Energy: gpu.ByMethod{70}}}},
				{AccountKey: gpu.AccountKey{Owner: serve}, Energy: gpu.ByMethod{30}},
			}}}
			tt.spoil(&b)
			got := ""
			if err := (ledger.State{Books: map[string]*ledger.BookState{uuid: &b}}).Check(at(9).Boot); err != nil {
				got = strings.TrimPrefix(err.Error(), "check the book of "+uuid+": ")
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if err := (ledger.State{Books: map[string]*ledger.BookState{uuid: nil}}).Check(at(9).Boot); err == nil {
		t.Error("Check accepts a GPU without a book")
	}
}

func TestInvalidRecords(t *testing.T) {
	book := ledger.Record{UUID: "GPU-1", Book: &ledger.BookState{}}
	account, process := ledger.Record{Account: &ledger.AccountRecord{}}, ledger.Record{Process: &ledger.ProcessRecord{}}
	for _, tt := range []struct {
		want    string
		records []ledger.Record
	}{
		{"the account comes before the first book", []ledger.Record{account}},
		{"the process account comes before the first owner's account of its book", []ledger.Record{book, process}},
		{"the process account comes before the first owner's account of its book", []ledger.Record{process}},
		{"the record is empty", []ledger.Record{book, {}}},
		{"duplicate book of GPU-1", []ledger.Record{book, account, process, book}},
	} {
		var b ledger.Builder
		last := len(tt.records) - 1
		for _, r := range tt.records[:last] {
			if err := b.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Add(tt.records[last]); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}
