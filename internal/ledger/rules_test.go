package ledger_test

import (
	"reflect"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

func (m *machine) check() {
	m.t.Helper()
	state := m.l.State()
	if err := state.Check(m.now); err != nil {
		m.t.Fatalf("the state is invalid, so a restart would begin with empty books: %v", err)
	}
	books, accounts := state.Books, 0
	for _, b := range m.boards {
		state := books[b.uuid]
		if state == nil {
			continue // the board has not been observed yet
		}
		now := &state.Book
		if !reflect.DeepEqual(b.book.Accounts, b.shown) {
			m.t.Fatalf("published accounts changed:\n%+v\nwere\n%+v", b.book.Accounts, b.shown)
		}
		done := b.settle(now.Settled.Boot, m.owner)
		m.followsBoard(b, now)
		m.throttles(b, now)
		m.profiles(b, now, done)
		m.neverFalls(b, now)
		m.podsNeverFall(b.book, now)
		m.meansIt(b, now, done)
		if now.Settled != b.book.Settled {
			m.explains(b.book, now, state.Intervals)
		}
		for i := range now.Accounts {
			accounts += m.addsUp(&now.Accounts[i])
		}
		b.book, b.shown = now, slices.Clone(now.Accounts)
		for i := range b.shown {
			b.shown[i].Processes = slices.Clone(b.shown[i].Processes)
		}
	}
	if accounts > m.cfg.MaxProcesses {
		m.t.Fatalf("%d process accounts, but the limit is %d", accounts, m.cfg.MaxProcesses)
	}
}

// The energy in the book must equal the value of the board's counter at one of the readings in the last ten seconds.
func (m *machine) followsBoard(b *board, now *gpu.Book) {
	if now.Energy != now.Sum() {
		m.t.Fatalf("the book is out of balance by %d mJ: %+v", now.Energy-now.Sum(), now)
	}
	if now.Settled.Boot != b.settled.at || now.Energy != b.energy {
		m.t.Fatalf("the book contains %d mJ at %v, but the board counted %d mJ at %v", now.Energy, now.Settled.Boot, b.energy, b.settled.at)
	}
	if len(b.spans) > 0 && m.now-b.spans[0].to.at >= 10*time.Second {
		m.t.Fatalf("a reading from %v ago is not settled", m.now-b.spans[0].to.at)
	}
}

// The throttled time of the book and of each account must be at most the throttled time of the board. The throttled
// energy of an account must not exceed its energy. The accounts together must not have more throttled energy than the
// book. No value may decrease.
func (m *machine) throttles(b *board, now *gpu.Book) {
	for c, all := range now.Throttled {
		left := all.Energy
		falls := all.Energy < b.book.Throttled[c].Energy || all.Time < b.book.Throttled[c].Time
		wrong := all.Energy > now.Energy || all.Time > b.throttled[c]
		for i := range now.Accounts {
			a := &now.Accounts[i]
			left -= a.Throttled[c].Energy
			wrong = wrong || a.Throttled[c].Energy > a.Energy.Sum() || a.Throttled[c].Time > b.throttled[c]
			if was := find(b.book, a.AccountKey); was != nil {
				falls = falls || a.Throttled[c].Energy < was.Throttled[c].Energy || a.Throttled[c].Time < was.Throttled[c].Time
			}
		}
		if left < 0 || wrong || falls {
			m.t.Fatalf("the board was throttled for %v by %v, but the book contains %+v:\n%+v", b.throttled[c], gpu.Throttle(c), now.Throttled, now)
		}
	}
}

// addsUp returns the number of the account's process accounts. The energy of the account must include its idle energy
// and the energy of its processes. No two process accounts may have the same PID.
func (m *machine) addsUp(a *gpu.Account) int {
	var inside gpu.Millijoules
	pids := map[uint32]bool{}
	for _, p := range a.Processes {
		inside += p.Energy.Sum()
		if !p.Folded && pids[p.PID] {
			m.t.Fatalf("two accounts of PID %d in one container: %+v", p.PID, a)
		}
		if !p.Folded {
			pids[p.PID] = true
		}
	}
	if inside > a.Energy.Sum() || a.Idle > a.Energy.Sum() {
		m.t.Fatalf("processes %d mJ, idle %d mJ; want at most the %d mJ of the container", inside, a.Idle, a.Energy.Sum())
	}
	return len(pids)
}

// An account may end only if its pod has neither held nor used the GPU for the retention time.
func (m *machine) neverFalls(b *board, now *gpu.Book) {
	was := b.book
	fell := now.Energy < was.Energy || now.Retired < was.Retired || now.Resets < was.Resets || now.Rejected < was.Rejected
	for r := range now.Unattributed {
		fell = fell || now.Unattributed[r] < was.Unattributed[r]
	}
	if fell {
		m.t.Fatalf("a total decreased:\n%+v\n%+v", was, now)
	}
	for i := range was.Accounts {
		old := &was.Accounts[i]
		if a := find(now, old.AccountKey); a != nil {
			m.accountNeverFalls(b, old, a)
		} else if b.absence(old.Owner) <= m.cfg.Retention {
			m.t.Fatalf("account ended %v after its pod last held or used the GPU: %+v", b.absence(old.Owner), old)
		}
	}
}

// While one of a pod's accounts exists, the sum over the pod's accounts must neither decrease nor restart. The accounts
// must end together.
func (m *machine) podsNeverFall(was, now *gpu.Book) {
	left := now.Energy - now.Retired
	for _, e := range now.Unattributed {
		left -= e
	}
	is := make(map[gpu.Owner]gpu.GroupAccount)
	for _, p := range now.Groups() {
		is[p.Owner] = p
		left -= p.Energy
	}
	if left != 0 {
		m.t.Fatalf("pods hold %d mJ less than their containers: %+v", left, now)
	}
	for _, old := range was.Groups() {
		p, there := is[old.Owner]
		if there && (p.Energy < old.Energy || p.Allocated < old.Allocated || !p.Opened.Equal(old.Opened)) {
			m.t.Fatalf("the sum of a pod decreased or restarted:\n%+v\n%+v", old, p)
		}
	}
	for i := range was.Accounts {
		old := &was.Accounts[i]
		if _, there := is[old.Group()]; there && find(now, old.AccountKey) == nil {
			m.t.Fatalf("a container's account ended before its pod's account: %+v", old)
		}
	}
}

// The account of a process may end only after the retention time, or if another process gets the PID.
func (m *machine) accountNeverFalls(b *board, was, now *gpu.Account) {
	if less(now.Energy, was.Energy) || now.Idle < was.Idle || now.Allocated < was.Allocated || now.Active < was.Active || now.Busy < was.Busy || now.GPUTime < was.GPUTime {
		m.t.Fatalf("an account decreased:\n%+v\n%+v", was, now)
	}
	for _, old := range was.Processes {
		same := func(p gpu.ProcessAccount) bool { return p.ProcessID == old.ProcessID && p.Folded == old.Folded }
		successor := func(p gpu.ProcessAccount) bool { return p.PID == old.PID && p.Start > old.Start }
		i := slices.IndexFunc(now.Processes, same)
		switch {
		case i >= 0 && less(now.Processes[i].Energy, old.Energy):
			m.t.Fatalf("the energy of a process decreased:\n%+v\n%+v", old, now.Processes[i])
		case i >= 0 || slices.ContainsFunc(now.Processes, successor):
		case old.Folded || b.settled.at-b.used[old.ProcessID] <= m.cfg.Retention:
			m.t.Fatalf("account ended %v after its process last used the GPU: %+v\n%+v", b.settled.at-b.used[old.ProcessID], old, now)
		}
	}
}

// Energy may be exclusive only if no other owner held the GPU or worked. It may be shared only if the activity was
// known. It may be idle only if the activity or the utilisation was known. No time may count twice. If the allocations
// were unknown, the time may be credited later.
func (m *machine) meansIt(b *board, now *gpu.Book, done []span) {
	exclusive := map[gpu.Owner]gpu.Millijoules{}
	var signal, known gpu.Millijoules // the energy while the activity was known, and the energy while the activity or the utilisation was known
	var settled time.Duration
	took := b.unknown
	for _, s := range done {
		settled += s.to.at - s.from.at
		took += s.to.at - s.from.at
		if b.unknown += s.to.at - s.from.at; s.allocationsKnown {
			b.unknown = 0
		}
		if s.signal() {
			signal += s.energy
		}
		if s.signal() || s.measured() {
			known += s.energy
		}
	}
	var held time.Duration
	for i := range now.Accounts {
		a, was := &now.Accounts[i], find(b.book, now.Accounts[i].AccountKey)
		if was == nil {
			was = &gpu.Account{}
		}
		exclusive[a.Group()] += a.Energy[gpu.Exclusive] - was.Energy[gpu.Exclusive]
		if a.Allocated > m.now-time.Hour || a.Active-was.Active > settled || a.Busy > a.Active {
			m.t.Fatalf("an account held the GPU for longer than its book exists, was active for more than %v, or was busy for longer than active: %+v after %+v", settled, a, was)
		}
		held += a.GPUTime - was.GPUTime
		signal -= a.Energy[gpu.Shared] - was.Energy[gpu.Shared]
		known -= a.Idle - was.Idle
	}
	if held > took {
		m.t.Fatalf("the accounts gained %v of GPU time in %v: %+v after %+v", held, took, now, b.book)
	}
	if signal < 0 || known < 0 {
		m.t.Fatalf("%d mJ of shared energy too much for the time with known activity, or %d mJ of idle energy too much for the time with known activity or utilisation: %+v\n%+v", -signal, -known, now, done)
	}
	for pod, more := range exclusive {
		for _, s := range done {
			if s.sole(pod, m.owner) {
				more -= s.energy
			}
		}
		if more > 0 {
			m.t.Fatalf("%d mJ of exclusive energy too much for the time in which only %v held the GPU or worked: %+v\n%+v", more, pod, now, done)
		}
	}
}

func find(b *gpu.Book, key gpu.AccountKey) *gpu.Account {
	if i := slices.IndexFunc(b.Accounts, func(a gpu.Account) bool { return a.AccountKey == key }); i >= 0 {
		return &b.Accounts[i]
	}
	return nil
}

func less(a, b gpu.ByMethod) bool {
	for i := range a {
		if a[i] < b[i] {
			return true
		}
	}
	return false
}
