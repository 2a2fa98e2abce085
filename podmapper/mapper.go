package podmapper

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

const (
	defaultPoll = 10 * time.Second
	// extraPoll is the shortest time between two polls that new containers ask
	// for. The kubelet answers 100 calls a second, to all its clients together.
	extraPoll = 2 * time.Second
	// callTimeout bounds a call of the kubelet, which answers in milliseconds.
	callTimeout = 3 * time.Second
	// freshPolls is how many polls an answer of the kubelet stays valid.
	freshPolls = 3
)

// Config says where the witnesses are.
type Config struct {
	ProcFS        string // such as /proc
	ContainerLogs string // such as /var/log/containers
	PodLogs       string // such as /var/log/pods; may be empty
	PodResources  string // absolute path of the kubelet's socket
	PodsAPI       string // that of its Pods API (1.37); may be empty, or not exist
	// Resources matches the resources whose devices are GPUs; nil for
	// [DefaultResources].
	Resources *regexp.Regexp
	Poll      time.Duration // between two lists of the kubelet; 10 s if zero
	Now       gpu.Clock
	Log       *slog.Logger
	Stages    *stage.Set
}

// Mapper maps processes and devices to containers. It is safe for concurrent
// use.
type Mapper struct {
	cfg   Config
	proc  procTree
	names *names
	// extra asks Run for a poll out of turn.
	extra chan struct{}

	// refresh is held during a poll, so that the kubelet never has two calls of
	// ours to answer. It guards the kubelet, the scan and what they last said.
	refresh    sync.Mutex
	kubelet    kubelet
	scan       podScan
	identities identities
	listed     listing            // the kubelet's last answer
	uids       map[podName]string // of the pods in it
	// polled is closed at the end of the first poll.
	polled chan struct{}

	// mu guards what the sampler asks for. It is never held during a call of the
	// kubelet.
	mu        sync.Mutex
	processes map[gpu.ProcessID]process
	bootTime  time.Time // zero until needed
	held      []gpu.Allocation
	// answered is when the kubelet last gave an answer, nil if it never did.
	answered  *time.Duration
	noKubelet bool
	seesHost  *bool // nil until looked at
}

// New returns a mapper that has read nothing yet.
func New(cfg Config) *Mapper {
	cfg.Poll = cmp.Or(cfg.Poll, defaultPoll)
	cfg.Resources = cmp.Or(cfg.Resources, defaultResources)
	proc := procTree{cfg.ProcFS}
	return &Mapper{
		cfg:        cfg,
		proc:       proc,
		names:      newNames(cfg),
		extra:      make(chan struct{}, 1),
		kubelet:    kubelet{socket: cfg.PodResources, timeout: min(callTimeout, cfg.Poll)},
		scan:       podScan{proc: proc},
		identities: make(identities),
		polled:     make(chan struct{}),
		processes:  make(map[gpu.ProcessID]process),
	}
}

// Run polls until ctx ends: at once, then once in every poll interval, and sooner
// when a process of a new container appears. It returns nil.
func (m *Mapper) Run(ctx context.Context) error {
	tick := time.NewTicker(m.cfg.Poll)
	defer tick.Stop()
	extra := rate.NewLimiter(rate.Every(extraPoll), 1)
	m.poll(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-m.extra:
			if extra.Wait(ctx) != nil {
				continue
			}
		}
		m.poll(ctx)
	}
}

// poll is one Refresh whose errors are left to the stages, which count and log
// them.
func (m *Mapper) poll(ctx context.Context) { _ = m.Refresh(ctx) }

// Polled returns a channel that is closed once the first poll is over, whatever
// came of it.
func (m *Mapper) Polled() <-chan struct{} { return m.polled }

// Refresh asks all three witnesses once. Each may fail on its own; the error
// joins what the stages were told. The links come before the kubelet: a pod that
// has links was admitted before, so that the answer is about it or a successor,
// never about its predecessor.
func (m *Mapper) Refresh(ctx context.Context) error {
	m.refresh.Lock()
	defer m.refresh.Unlock()
	defer m.endPoll()
	m.watchHostPIDs()
	namesErr := m.names.refresh()
	known := m.names.podUIDs()
	listErr := m.list(ctx)
	live, scanErr := m.scanProcesses(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if listErr == nil {
		m.uids = m.identities.find(m.listed.held, known, live)
	}
	m.publish(listErr, m.listed.allocations(m.uids, live, func(holding) string { return "" }))
	m.forgetProcesses()
	return errors.Join(listErr, namesErr, scanErr)
}

// endPoll says that there was a poll. The caller holds m.refresh.
func (m *Mapper) endPoll() {
	select {
	case <-m.polled:
	default:
		close(m.polled)
	}
}

// list asks the kubelet and keeps its answer.
func (m *Mapper) list(ctx context.Context) error {
	began := m.cfg.Now()
	pods, err := m.kubelet.list(ctx)
	if ctx.Err() != nil { // nobody's fault
		return ctx.Err()
	}
	m.cfg.Stages.Observe(stage.PodResources, began, err)
	if err == nil {
		m.listed = readListing(pods, m.cfg.Resources, m.cfg.Log)
	}
	return err
}

// scanProcesses finds the pods that are alive.
func (m *Mapper) scanProcesses(ctx context.Context) (map[string]bool, error) {
	began := m.cfg.Now()
	live, err := m.scan.scan(ctx, began.Boot)
	if ctx.Err() != nil { // nobody's fault
		return nil, ctx.Err()
	}
	m.cfg.Stages.Observe(stage.Processes, began, err)
	return live, err
}

// publish makes the result of a poll visible. After a failed call the last
// answer stands until it is too old, but a pod that died since is not live.
func (m *Mapper) publish(listErr error, held []gpu.Allocation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = held
	m.noKubelet = errors.Is(listErr, errNoKubelet)
	if listErr == nil {
		m.answered = new(m.cfg.Now().Boot)
	}
}

// Allocations returns who holds which GPU, by the kubelet's last answer, sorted
// by GPU and container; the list must not be changed. It is known while that
// answer is at most three polls old. A host that has, and since the start had,
// neither the kubelet's socket nor its directory is a host without a kubelet:
// known to have given nothing away.
func (m *Mapper) Allocations() gpu.Allocations {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.noKubelet {
		return gpu.Allocations{Known: true}
	}
	if m.answered == nil || m.cfg.Now().Boot-*m.answered > freshPolls*m.cfg.Poll {
		return gpu.Allocations{}
	}
	return gpu.Allocations{Known: true, List: m.held}
}
