package podmapper

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
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
	// extraPoll is the minimum interval between two polls for new containers. All clients of the kubelet share its
	// limit of 100 calls per second.
	extraPoll = 2 * time.Second
	// callTimeout is the timeout of a call to the kubelet, and of a read of the log directories. Both usually take
	// milliseconds.
	callTimeout = 3 * time.Second
	// freshPolls is the number of poll intervals for which a response of the kubelet stays valid.
	freshPolls = 3
)

// Config contains the sources and the settings of a [Mapper].
type Config struct {
	ProcFS        string // path of procfs, such as /proc
	ContainerLogs string // path of the log links, such as /var/log/containers
	PodLogs       string // path of the log directories, such as /var/log/pods; may be empty
	// PodResources is the absolute path of the kubelet's socket. If it is empty, the machine has no kubelet, and the
	// mapper reads only ProcFS.
	PodResources string
	PodsAPI      string // path of the Pods API's socket (Kubernetes 1.37); it may be empty or missing
	// Resources matches the names of resources that represent GPUs. Nil means [DefaultResources].
	Resources *regexp.Regexp
	// Reservations contains the namespaces of pods that only reserve GPUs for other pods. Nil means
	// [DefaultReservations].
	Reservations []string
	Poll         time.Duration // interval between two polls; 10 s if zero
	Now          gpu.Clock
	Log          *slog.Logger
	Stages       *stage.Set
}

// Mapper maps processes and devices to containers. It implements [owner.Resolver] and is safe for concurrent use.
type Mapper struct {
	cfg   Config
	tree  proc.Tree
	sight proc.Sight
	names *names
	// extra requests a poll from Run before the next tick.
	extra chan struct{}

	// refresh is locked during a poll, so that the mapper makes at most one call at a time. It guards the following
	// fields, up to the field pods.
	refresh     sync.Mutex
	skippedLast bool // set if the last response of the kubelet was ignored
	kubelet     kubelet
	podsAPI     podsAPI
	scan        podScan
	found       podProcesses    // processes of pods in the last scan for which the host's processes were visible
	ended       map[string]bool // UIDs of listed pods that had processes but have none now
	identities  identities
	listed      listing            // last accepted response of the pod-resources API
	warned      map[string]bool    // resources for which an id in an unknown format was already logged
	uids        map[podName]string // UIDs of the listed pods
	pods        *pods              // last response of the Pods API, or nil
	// polled is closed at the end of the first poll.
	polled chan struct{}

	// mu guards the fields that the sampler reads. It is never held during a call to the kubelet.
	mu           sync.Mutex
	held         []gpu.Allocation
	alive        map[string]bool // UIDs of live pods, with or without allocations
	podProcesses podProcesses    // processes of the pods with allocations
	// livenessKnown is set if the Pods API reported the live pods. Otherwise they were derived from processes.
	livenessKnown bool
	// requested is the request time of the last accepted list (boot clock), or nil before the first list.
	requested *time.Duration
	seesHost  *bool // nil until the PID namespace was checked
}

// New returns a Mapper without data.
func New(cfg Config) *Mapper {
	cfg.Poll = cmp.Or(cfg.Poll, defaultPoll)
	cfg.Resources = cmp.Or(cfg.Resources, defaultResources)
	if cfg.Reservations == nil {
		cfg.Reservations = DefaultReservations
	}
	if cfg.PodResources == "" {
		cfg.ContainerLogs, cfg.PodLogs, cfg.PodsAPI = "", "", ""
	}
	tree := proc.Tree{Root: cfg.ProcFS}
	return &Mapper{
		cfg:        cfg,
		tree:       tree,
		sight:      proc.Sight{Tree: tree},
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

// Run polls immediately and then at every poll interval. It also polls when a process of a new container appears. When
// ctx ends, Run returns nil.
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

// poll ignores the error of Refresh, because the stages already count and log each error.
func (m *Mapper) poll(ctx context.Context) { _ = m.Refresh(ctx) }

// Polled returns a channel that is closed after the first poll, with or without an error.
func (m *Mapper) Polled() <-chan struct{} { return m.polled }

// Refresh polls all sources once, and joins their errors. It reads the log links before it requests the kubelet's list.
// Each pod with a link then existed before the request. So the pod's name in the list cannot refer to an earlier pod.
// Refresh reads the Pods API after the list.
func (m *Mapper) Refresh(ctx context.Context) error {
	m.refresh.Lock()
	defer m.refresh.Unlock()
	defer m.markPolled()
	seesHost := m.observeHostPIDs()
	namesErr := m.names.refresh(ctx)
	known := m.names.candidates()
	requested, listErr := m.list(ctx)
	now, podsErr := m.listPods(ctx)
	found, scanErr := m.scanProcesses(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	blind := errors.Is(scanErr, proc.ErrBlind)
	if !blind {
		m.ended, m.found = m.endedBy(found), found
		m.names.forget(found.uids())
	}
	last := m.recentPods()
	live := m.found.uids()
	switch {
	case now != nil:
		live = now.liveUIDs()
	case blind: // pods that were found earlier may still run
		maps.Copy(live, withLogs(known))
		last.correctLive(live)
	case !seesHost:
		live = withLogs(known)
		last.correctLive(live)
	}
	if now == nil {
		maps.DeleteFunc(live, func(uid string, _ bool) bool { return m.ended[uid] })
	}
	last.addTo(known)
	if requested != nil {
		m.identify(now, known, live)
	}
	m.pods = cmp.Or(now, m.pods)
	users := reservations{m.cfg.Reservations, cmp.Or(now, last), live}
	m.publish(requested, users.toUsers(m.listed.allocations(m.uids, live, m.pods), m.pods), live, m.found, now != nil)
	return errors.Join(listErr, podsErr, namesErr, scanErr)
}

// endedBy returns the UIDs of the listed pods that had processes earlier but have no process in found. The argument
// found is the result of the last scan.
func (m *Mapper) endedBy(found podProcesses) map[string]bool {
	ended := make(map[string]bool)
	for _, uid := range m.uids {
		if found[uid] == nil && (m.ended[uid] || m.found[uid] != nil) {
			ended[uid] = true
		}
	}
	return ended
}

// identify finds the UIDs of the pods in the kubelet's list. If the Pods API reports the UIDs, identify also stores
// them for later polls, because the API may not respond then.
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

// recentPods returns the last response of the Pods API, or nil if it is stale.
func (m *Mapper) recentPods() *pods {
	if m.pods != nil && m.cfg.Now().Boot-m.pods.requested > freshPolls*m.cfg.Poll {
		return nil
	}
	return m.pods
}

// withLogs returns the UIDs of the pods that have logs. If the exporter cannot see the processes of pods, a pod with
// logs counts as alive while the kubelet lists it. Kubelets before 1.34 also list finished pods, so finished pods with
// logs count as alive too.
func withLogs(known candidates) map[string]bool {
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

// markPolled records that the first poll has ended. The caller holds m.refresh.
func (m *Mapper) markPolled() {
	select {
	case <-m.polled:
	default:
		close(m.polled)
	}
}

// list reads the pod-resources list and returns its request time (boot clock). The result is nil if the response was
// not accepted. The previous list then stays valid, but pods that were created later are unknown.
func (m *Mapper) list(ctx context.Context) (requested *time.Duration, err error) {
	if m.cfg.PodResources == "" {
		return nil, nil
	}
	began := m.cfg.Now()
	pods, err := m.kubelet.list(ctx)
	if ctx.Err() != nil { // an error because the context ended is not a failure of the stage
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
	if m.mayHaveRestarted(next) {
		return nil, nil
	}
	m.listed = next
	m.warnOfIDs()
	m.names.learnSingle(next.single)
	return &began.Boot, nil
}

// warnOfIDs logs device ids in an unknown format, once for each resource.
func (m *Mapper) warnOfIDs() {
	for pod, held := range m.listed.held {
		for _, d := range held {
			if d.understood() || m.warned[d.resource] {
				continue
			}
			m.warned[d.resource] = true
			m.cfg.Log.Warn("unknown format of a device id, so the allocated GPU is unknown: the container is charged for using a GPU, but not for holding one; "+
				"report this id to the project or, if the device is not a GPU, exclude the resource with --kubelet.resource-pattern",
				"resource", d.resource, "id", d.id[:min(len(d.id), maxOpaque)], "namespace", pod.namespace, "pod", pod.pod, "container", d.container)
		}
	}
}

// mayHaveRestarted reports whether a response must be ignored. This is the case if the response contains none of the
// pods that held GPUs before. Such a response may come from a kubelet that has just started. In its first second, a
// kubelet lists no pods, or only its static pods. The mapper soon requests another response and always accepts it.
func (m *Mapper) mayHaveRestarted(next listing) bool {
	m.skippedLast = !m.skippedLast && m.listed.allGone(next)
	if m.skippedLast {
		m.requestPoll()
	}
	return m.skippedLast
}

func (m *Mapper) scanProcesses(ctx context.Context) (podProcesses, error) {
	began := m.cfg.Now()
	live, err := m.scan.scan(ctx, began.Boot)
	err = errors.Join(m.sight.Check(), err)
	if ctx.Err() != nil { // an error because the context ended is not a failure of the stage
		return nil, ctx.Err()
	}
	m.cfg.Stages.Observe(stage.Processes, began, err)
	return live, err
}

func (m *Mapper) requestPoll() {
	select {
	case m.extra <- struct{}{}:
	default:
	}
}
