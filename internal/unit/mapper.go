package unit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/lane"
	"github.com/gpuledger/gpuledger/internal/owner"
	"github.com/gpuledger/gpuledger/internal/proc"
	"github.com/gpuledger/gpuledger/internal/stage"
)

const (
	// pollEvery is the usual interval between two polls. An event such as a new container can request an early poll.
	// extraPoll is the minimum interval before it.
	pollEvery = 10 * time.Second
	extraPoll = 2 * time.Second
	// fileTimeout is the timeout for reading files, because the disk may hang.
	fileTimeout = 3 * time.Second
	// nameAfter is the time for which a process waits for the name of its unit before the unit's id becomes the name.
	// It is shorter than the time for which the ledger waits for owners before it charges an interval.
	nameAfter  = 5 * time.Second
	titleEvery = time.Second
	// A unit without a process counts as alive for this duration after a prolog has written its file. The first process
	// of a job must start within this time.
	fresh = 3 * pollEvery
)

// Config contains the sources and settings of a Mapper.
type Config struct {
	ProcFS string
	// Known contains all managers, sorted by precedence. If it is nil, the built-in managers are used.
	Known []Manager
	// Managers contains the names of managers. Only units of these managers and of Patterns get metrics.
	Managers []string
	Patterns Patterns
	// Max is the maximum number of units. Beyond this limit, the units of a manager are combined into one unit, named
	// other.
	Max int
	// Keep is the time for which a unit counts towards Max after its last process has ended.
	Keep time.Duration
	// Users selects the data about users that pages show. Passwd is the path of the file with the users'
	// names.
	Users  Users
	Passwd string
	// HeldDirs contains the directories in which Slurm prologs list the GPUs that each job holds.
	HeldDirs []string
	Numbers  Numbers
	// DockerRoot is the data root of Docker. PodmanRoots are Podman's graph root and run root.
	DockerRoot  string
	PodmanRoots []string
	// ContainerdRun is the state directory of containerd.
	ContainerdRun string
	// RootlessDir is the directory with the files in which users name their containers. Each file is named after the
	// user's uid. If RootlessDir is empty, there are no such files.
	RootlessDir string
	// Pods resolves the processes of pods, and IsPod recognises the cgroups of pods. Both are nil on a machine without
	// Kubernetes.
	Pods   owner.Resolver
	IsPod  func(segment string, above []string) bool
	Now    gpu.Clock
	Log    *slog.Logger
	Stages *stage.Set
}

// Mapper maps processes to units. It is an [owner.Resolver] and is safe for concurrent use.
type Mapper struct {
	cfg    Config
	tree   proc.Tree
	sight  proc.Sight
	parser parser
	// heldDirs contains all directories with files about held GPUs: those in Config.HeldDirs and in the definitions of
	// managers.
	heldDirs []heldDir
	// extra requests a poll from Run, and polled is closed after the first poll.
	extra, polled chan struct{}

	// scanning is locked during a scan and guards scan and scanned.
	scanning sync.Mutex
	scan     scan
	scanned  time.Duration // boot-clock time of the last scan by findJob

	// refresh is locked during a poll and guards the fields up to containers.
	refresh    sync.Mutex
	found      live // units found by the last scan
	lastFiles  prologFiles
	passwd     map[string]string
	containers map[string]container // containers by key, see [match.key]

	mu sync.Mutex
	// active is set from the start on a machine without Kubernetes. On a Kubernetes node it is set when the first unit
	// is found. Until active is set, no source is polled.
	active bool
	// jobs contains the job id for each run of a job, by SLUID. names contains the name of each
	// container, by key.
	jobs, names map[string]dated
	engines     map[string]string
	described   map[jobKey]gpu.UnitInfo
	uids        map[gpu.Unit]string
	// units contains the units within the limit, with the boot-clock time at which each unit was last alive.
	units     map[gpu.Unit]time.Duration
	infos     map[gpu.Unit]gpu.UnitInfo // immutable
	held      []gpu.Allocation          // immutable
	asked     time.Duration             // boot-clock time at which held was read; 0 before the first read
	numbering numbering
	// processes contains some of the processes of each unit. The map is immutable.
	processes map[gpu.Owner][]gpu.ProcessID
}

type dated struct {
	name string
	last time.Duration
}

// required reports whether units may hold GPUs that no process uses yet.
func (cfg *Config) required() bool { return len(cfg.heldDirs()) > 0 || cfg.Pods == nil }

func (cfg *Config) known() []Manager {
	if cfg.Known == nil {
		return slices.Concat(cfg.Patterns, BuiltInManagers())
	}
	return slices.Concat(cfg.Patterns, cfg.Known)
}

// New returns a Mapper without any data.
func New(cfg Config) *Mapper {
	cfg.Max = cmp.Or(cfg.Max, 1000)
	tree := proc.Tree{Root: cfg.ProcFS}
	m := &Mapper{
		cfg: cfg, tree: tree, sight: proc.Sight{Tree: tree}, parser: parser{cfg.known(), cfg.IsPod}, heldDirs: cfg.heldDirs(),
		extra: make(chan struct{}, 1), polled: make(chan struct{}), active: cfg.required(),
		containers: make(map[string]container),
		jobs:       make(map[string]dated), names: make(map[string]dated),
		described: make(map[jobKey]gpu.UnitInfo),
		uids:      make(map[gpu.Unit]string), units: make(map[gpu.Unit]time.Duration),
	}
	m.scan = scan{tree: tree, parser: &m.parser, parented: m.ofEngine, services: m.enabled(Systemd)}
	return m
}

// Run polls until ctx ends. It returns nil.
func (m *Mapper) Run(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	extra := rate.NewLimiter(rate.Every(extraPoll), 1)
	for first := true; ; first = false {
		_ = m.Refresh(ctx) // the stages count and log the error
		if first {
			close(m.polled)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-m.extra:
			if extra.Wait(ctx) != nil {
				return nil
			}
		}
	}
}

// Polled returns a channel that is closed after the first poll of Run.
func (m *Mapper) Polled() <-chan struct{} { return m.polled }

// Refresh reads all sources once. It reads nothing until the mapper is active.
func (m *Mapper) Refresh(ctx context.Context) error {
	m.refresh.Lock()
	defer m.refresh.Unlock()
	if !m.isActive() {
		return nil
	}
	began := m.cfg.Now()
	found, scanErr := m.findLive(ctx, began.Boot)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(scanErr, proc.ErrBlind):
		found = m.found // units from an earlier poll may still run
	}
	m.found = found
	fileErr, ok := m.readFiles(ctx, found)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !ok:
		fileErr = errors.New("read the files of prologs and containers: the disk does not respond")
	}
	found.adopt(m.containers)
	err := errors.Join(scanErr, fileErr, m.publish(found, began))
	m.cfg.Stages.Observe(stage.Units, began, err)
	return err
}

// Activate makes the Mapper read all sources, even if no unit was found yet.
func (m *Mapper) Activate() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active = true
}

func (m *Mapper) isActive() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.active
}

func (m *Mapper) findLive(ctx context.Context, now time.Duration) (live, error) {
	m.scanning.Lock()
	defer m.scanning.Unlock()
	found, err := m.scan.run(ctx, now)
	if blind := m.sight.Check(); blind != nil {
		return live{}, blind
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for sluid, job := range found.jobs {
		if m.jobs[sluid].name == "" {
			m.jobs[sluid] = dated{job, now}
		}
	}
	return found, err
}

// findJob scans the processes for the daemons of jobs. The title of a daemon contains the job id for a SLUID. A job's
// daemon exists before the job's first process, so one scan finds it.
func (m *Mapper) findJob(now time.Duration) {
	if !m.scanning.TryLock() {
		return
	}
	due := m.scanned == 0 || now-m.scanned >= titleEvery
	if due {
		m.scanned = now
	}
	m.scanning.Unlock()
	if due {
		_, _ = m.findLive(context.Background(), now) // Refresh reports errors
	}
}

// readFiles reads the files of prologs and new containers. It returns false if the disk does not respond in time, and
// drops the late result.
func (m *Mapper) readFiles(ctx context.Context, found live) (error, bool) {
	type result struct {
		prolog     prologFiles
		passwd     map[string]string
		containers map[string]container
		rootless   map[string]container
		err        error
	}
	ids, users := m.newContainers(found), m.newRootless(found)
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	r, ok := lane.Run(ctx, func() (r result) {
		var errs [3]error
		r.prolog, errs[0] = readPrologFiles(m.heldDirs, m.cfg.Numbers)
		if m.cfg.Users == UsersName {
			r.passwd, errs[1] = readUsers(m.cfg.Passwd)
		}
		r.containers, errs[2] = m.readContainers(ids)
		r.rootless = m.readRootless(users)
		r.err = errors.Join(errs[:]...)
		return r
	})
	if !ok {
		return nil, false
	}
	m.lastFiles, m.passwd = r.prolog, r.passwd
	maps.Copy(m.containers, r.containers)
	maps.Copy(m.containers, r.rootless)
	return r.err, true
}
