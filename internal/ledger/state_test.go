package ledger_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// TestRestore: a restart between two settled moments loses and invents nothing.
func TestRestore(t *testing.T) {
	p := process(21, in(train))
	l := newLedger()
	before := ask(t, l, look(0, []gpu.Process{p}, holds(train, 1)), look(1, []gpu.Process{p}, holds(train, 1)))
	l.Observe(look(2, []gpu.Process{p, process(22, gpu.Owner{})}, holds(train, 1))) // not settled
	l = ledger.Restore(ledger.Config{Tick: time.Second, Retention: 5 * time.Minute}, l.State())
	if diff := cmp.Diff(before, bookOf(l, uuid)); diff != "" {
		t.Errorf("restored book (-saved +restored):\n%s", diff)
	}
	after := ask(t, l, look(3, []gpu.Process{p}, holds(train, 1)))
	if after.Energy != 900_000 || after.Containers[0].Energy[gpu.Exclusive] != 900_000 {
		t.Errorf("after the restart: %+v", after)
	}
}

// TestPublished: what was handed out does not change when the ledger goes on.
func TestPublished(t *testing.T) {
	p := process(21, in(train))
	l := newLedger()
	shown := ask(t, l, look(0, []gpu.Process{p}), look(1, []gpu.Process{p}))
	saved := l.State()
	ask(t, l, look(2, []gpu.Process{p}))
	ask(t, ledger.Restore(ledger.Config{}, saved), look(2, []gpu.Process{p}))
	want := gpu.ByMethod{gpu.Exclusive: 300_000}
	for name, a := range map[string]gpu.ContainerAccount{"book": shown.Containers[0], "state": saved.Books[uuid].Containers[0]} {
		if a.Energy != want || a.Processes[0].Energy != want {
			t.Errorf("%s: the container has %v now, its process %v; want %v", name, a.Energy, a.Processes[0].Energy, want)
		}
	}
}

// TestCheck: a state that cannot be continued is found, whatever is wrong with it.
func TestCheck(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*gpu.Book)
		want  string
	}{
		{"sound", func(*gpu.Book) {}, ""},
		{"out of balance", func(b *gpu.Book) { b.Energy++ }, "energy is 101 mJ, but the accounts hold 100 mJ"},
		{"retired", func(b *gpu.Book) { b.Energy, b.Retired = 99, -1 }, "an amount is negative"},
		{"unattributed", func(b *gpu.Book) { b.Energy, b.Unattributed[gpu.Gap] = 99, -1 }, "an amount is negative"},
		{"energy", func(b *gpu.Book) { b.Containers[0].Energy = gpu.ByMethod{71, -1, 0} }, "an amount is negative"},
		{"idle", func(b *gpu.Book) { b.Containers[0].Idle = -1 }, "an amount is negative"},
		{"allocated", func(b *gpu.Book) { b.Containers[0].Allocated = -1 }, "an amount is negative"},
		{"active", func(b *gpu.Book) { b.Containers[0].Active = -1 }, "an amount is negative"},
		{"process", func(b *gpu.Book) { b.Containers[0].Processes[0].Energy[gpu.Shared] = -1 }, "an amount is negative"},
		{"out of order", func(b *gpu.Book) { slices.Reverse(b.Containers) }, "the accounts are not in order"},
		{"one key twice", func(b *gpu.Book) { b.Containers[0].AccountKey = b.Containers[1].AccountKey }, "the accounts are not in order"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := gpu.Book{Energy: 100, Containers: []gpu.ContainerAccount{
				{AccountKey: gpu.AccountKey{Container: train}, Energy: gpu.ByMethod{70}, Processes: []gpu.ProcessAccount{{Energy: gpu.ByMethod{70}}}},
				{AccountKey: gpu.AccountKey{Container: serve}, Energy: gpu.ByMethod{30}},
			}}
			tt.spoil(&b)
			got := ""
			if err := (ledger.State{Books: map[string]*ledger.BookState{uuid: {Book: b}}}).Check(); err != nil {
				got = strings.TrimPrefix(err.Error(), "check the book of "+uuid+": ")
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if err := (ledger.State{Books: map[string]*ledger.BookState{uuid: nil}}).Check(); err == nil {
		t.Error("a GPU without a book can be continued")
	}
}
