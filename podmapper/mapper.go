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
	"github.com/gpuledger/gpuledger/internal/proc"
	"github.com/gpuledger/gpuledger/internal/stage"
)

const (
	defaultPoll = 10 * time.Second
	// extraPoll is the shortest time between two polls that new containers ask
	// for. The kubelet answers 100 calls a second, to all its clients together.
	extraPoll = 2 * time.Second
	// callTimeout bounds a call of the kubelet, and a poll's look at the logs: both
	// take milliseconds.
	callTimeout = 3 * time.Second
	// freshPolls is how many polls an answer of the kubelet stays valid.
	freshPolls = 3
)

// Config lists what the mapper reads.
type Config struct {
	ProcFS        string // such as /proc
	ContainerLogs string // such as /var/log/containers
	PodLogs       string // such as /var/log/pods; may be empty
	// PodResources is the absolute path of the kubelet's socket. It is empty on a
	// machine without Kubernetes, where nothing but ProcFS is read.
	PodResources string
	PodsAPI      string // that of its Pods API (1.37); may be empty, or not exist
	// Resources matches the resources whose devices are GPUs; nil for
	// [DefaultResources].
	Resources *regexp.Regexp
	Poll      time.Duration // between two lists of the kubelet; 10 s if zero
	Now       gpu.Clock
	Log       *slog.Logger
	Stages    *stage.Set
}

// Mapper maps processes and devices to containers. It is an [owner.Resolver], and safe for
// concurrent use.
type Mapper struct {
	cfg   Config
	tree  proc.Tree
	names *names
	// extra asks Run for a poll out of turn.
	extra chan struct{}

	// refresh is held during a poll, so that the kubelet never has two calls of
	// ours to answer. It guards the kubelet, the scan and what they last said.
	refresh    sync.Mutex
	doubted    bool // the kubelet's last answer was not taken
	kubelet    kubelet
	podsAPI    podsAPI
	scan       podScan
	identities identities
	listed     listing            // the kubelet's last answer
	warned     map[string]bool    // resources that have an id which is not understood
	uids       map[podName]string // of the pods in it
	pods       *pods              // the last answer of the Pods API, nil if there was none
	// polled is closed at the end of the first poll.
	polled chan struct{}

	// mu guards what the sampler asks for. It is never held during a call of the
	// kubelet.
	mu           sync.Mutex
	held         []gpu.Allocation
	podProcesses podProcesses // of the pods that hold something
	// lifeTold is set if the Pods API said who lives, not the processes.
	lifeTold bool
	// asked is when the kubelet was asked for its last answer (boot clock), nil if it never
	// gave one.
	asked    *time.Duration
	seesHost *bool // nil until looked at
}

// New returns a mapper that has read nothing yet.
func New(cfg Config) *Mapper {
	cfg.Poll = cmp.Or(cfg.Poll, defaultPoll)
	cfg.Resources = cmp.Or(cfg.Resources, defaultResources)
	if cfg.PodResources == "" {
		cfg.ContainerLogs, cfg.PodLogs, cfg.PodsAPI = "", "", ""
	}
	tree := proc.Tree{Root: cfg.ProcFS}
	return &Mapper{
		cfg:        cfg,
		tree:       tree,
		names:      newNames(cfg),
		extra:      make(chan struct{}, 1),
		kubelet:    kubelet{socket: socket{cfg.PodResources, min(callTimeout, cfg.Poll)}},
		podsAPI:    podsAPI{socket{cfg.PodsAPI, min(callTimeout, cfg.Poll)}},
		scan:       podScan{tree: tree},
		identities: make(identities),
		warned:     make(map[string]bool),
		polled:     make(chan struct{}),
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

// Refresh reads everything once. Each may fail on its own; the error joins what
// the stages were told. The links come before the kubelet's list: a pod that has
// links was admitted before, so that the list is about it or a successor, never
// about its predecessor. The Pods API comes after it.
func (m *Mapper) Refresh(ctx context.Context) error {
	m.refresh.Lock()
	defer m.refresh.Unlock()
	defer m.endPoll()
	seesHost := m.watchHostPIDs()
	namesErr := m.names.refresh(ctx)
	known := m.names.candidates()
	asked, listErr := m.list(ctx)
	now, podsErr := m.listPods(ctx)
	found, scanErr := m.scanProcesses(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	last := m.lastPods()
	live := found.uids()
	m.names.forget(live)
	switch {
	case now != nil:
		live = now.liveUIDs()
	case !seesHost:
		live = listedNow(known)
		last.overrule(live)
	}
	last.addTo(known)
	if asked != nil {
		m.identify(now, known, live)
	}
	m.pods = cmp.Or(now, m.pods)
	m.publish(asked, m.listed.allocations(m.uids, live, m.pods), found, now != nil)
	return errors.Join(listErr, podsErr, namesErr, scanErr)
}

// identify finds the UIDs of the pods in the kubelet's list. What the Pods API said
// is remembered for when it does not answer.
func (m *Mapper) identify(now *pods, known candidates, live map[string]bool) {
	held := m.listed.identifiable()
	if now == nil {
		m.uids = m.identities.find(held, known, live)
		return
	}
	m.uids = now.uids(held, m.pods)
	clear(m.identities)
	for name, uid := range m.uids {
		m.identities[identity{name, uid}] = held[name]
	}
}

// lastPods returns the last answer of the Pods API while it stands, as long as one
// of the kubelet's list would, else nil.
func (m *Mapper) lastPods() *pods {
	if m.pods != nil && m.cfg.Now().Boot-m.pods.asked > freshPolls*m.cfg.Poll {
		return nil
	}
	return m.pods
}

// listedNow returns the UIDs of the pods that have logs. Where no process of theirs
// can be seen they count as alive if the kubelet lists them too: a finished pod
// then lives on, by the word of a kubelet older than 1.34.
func listedNow(known candidates) map[string]bool {
	live := make(map[string]bool, len(known))
	for _, pods := range known {
		for _, p := range pods {
			if p.logs {
				live[p.uid] = true
			}
		}
	}
	return live
}

// endPoll says that there was a poll. The caller holds m.refresh.
func (m *Mapper) endPoll() {
	select {
	case <-m.polled:
	default:
		close(m.polled)
	}
}

// list asks the kubelet, and returns when it did (boot clock). It is nil if the answer was
// not taken for the last: then that of before stands, and says nothing about pods that
// came since.
func (m *Mapper) list(ctx context.Context) (asked *time.Duration, err error) {
	if m.cfg.PodResources == "" {
		return nil, nil
	}
	began := m.cfg.Now()
	pods, err := m.kubelet.list(ctx)
	if ctx.Err() != nil { // nobody's fault
		return nil, ctx.Err()
	}
	var next listing
	if err == nil {
		next = readListing(pods, m.cfg.Resources, m.cfg.Log)
		err = next.check()
	}
	m.cfg.Stages.Observe(stage.PodResources, began, err)
	if err != nil {
		return nil, err
	}
	if m.doubts(next) {
		return nil, nil
	}
	m.listed = next
	m.warnOfIDs()
	m.names.learnOnly(next.alone)
	return &began.Boot, nil
}

// warnOfIDs says, once for each resource, that an id of its devices is not understood.
func (m *Mapper) warnOfIDs() {
	for pod, held := range m.listed.held {
		for _, d := range held {
			if d.understood() || m.warned[d.resource] {
				continue
			}
			m.warned[d.resource] = true
			m.cfg.Log.Warn("unknown device id format, so the allocated GPU is unknown: its container is charged for use but not for holding; "+
				"report the id, or, if the device is not a GPU, exclude the resource from --kubelet.resource-pattern",
				"resource", d.resource, "id", d.id[:min(len(d.id), maxOpaque)], "namespace", pod.namespace, "pod", pod.pod, "container", d.container)
		}
	}
}

// doubts reports whether an answer is not taken yet: one without any of the pods
// that held GPUs before. A kubelet that was just started lists no pods, or only its
// static ones, until it has read the others, some hundred milliseconds later. The
// next answer, which comes soon, decides.
func (m *Mapper) doubts(next listing) bool {
	m.doubted = !m.doubted && m.listed.allGone(next)
	if m.doubted {
		m.askSoon()
	}
	return m.doubted
}

// scanProcesses finds the pods that have processes.
func (m *Mapper) scanProcesses(ctx context.Context) (podProcesses, error) {
	began := m.cfg.Now()
	live, err := m.scan.scan(ctx, began.Boot)
	if ctx.Err() != nil { // nobody's fault
		return nil, ctx.Err()
	}
	m.cfg.Stages.Observe(stage.Processes, began, err)
	return live, err
}

// askSoon asks Run for a poll out of turn.
func (m *Mapper) askSoon() {
	select {
	case m.extra <- struct{}{}:
	default:
	}
}
