package podmapper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// keepNames is how long a container is remembered after its link is gone: longer
// than the accounts of an ended container are held.
const keepNames = 15 * time.Minute

// provingDigits is how much of a container's id proves which one is meant: 48
// bits, as many as the container engines themselves show.
const provingDigits = 12

// names is an index of containers: of the kubelet's log links and log directories,
// and of what its Pods API says. It is safe for concurrent use.
type names struct {
	dir    string
	now    gpu.Clock
	stages *stage.Set
	// extra limits the readings for the sake of an unknown container.
	extra *rate.Limiter

	mu    sync.Mutex
	links map[logLink]linkState
	byID  map[string]logLink
	logs  podLogs
	// only holds the container of each pod that has only one, by UID and, as far as
	// the pod-resources API tells, by name.
	only       map[string]gpu.Container
	onlySince  time.Duration // when the Pods API was asked for it, on the boot clock
	onlyByName map[podName]string
	// listing counts the readings of the directory.
	listing uint64
}

// linkState says how current a link is.
type linkState struct {
	listing uint64        // the last listing that had it
	used    time.Duration // when it was last listed or looked up, on the boot clock
}

func newNames(cfg Config) *names {
	return &names{
		dir:    cfg.ContainerLogs,
		now:    cfg.Now,
		stages: cfg.Stages,
		extra:  rate.NewLimiter(2, 5),
		logs:   podLogs{root: cfg.PodLogs},
		links:  make(map[logLink]linkState),
		byID:   make(map[string]logLink),
	}
}

// refresh reads the directory and forgets what is long gone.
func (n *names) refresh() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.load()
	oldest := n.now().Boot - keepNames
	for l, state := range n.links {
		if state.used < oldest {
			delete(n.links, l)
			delete(n.byID, l.id)
		}
	}
	return err
}

// learn takes in what the Pods API says that was asked at the given time: the
// containers whose ids are known, and those that are the only ones of their pods.
func (n *names) learn(containers []logLink, only map[string]gpu.Container, asked time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now().Boot
	for _, l := range containers {
		n.links[l] = linkState{listing: n.links[l].listing, used: now}
		n.byID[l.id] = l
	}
	n.only, n.onlySince = only, asked
}

// learnOnly takes in the names of the pods that have only one container.
func (n *names) learnOnly(containers map[podName]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.onlyByName = containers
}

// lookup names the container with the given id, of the pod with the given UID
// unless that is empty. The directory is read at once if the container is
// unknown, as it is right after its start. The process of a sandbox (gVisor) has an
// id that no container has; it is the container's if its pod has only one, and had no
// other when the process was first seen.
func (n *names) lookup(podUID, id string, seen time.Duration) (gpu.Container, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	l, ok := n.find(podUID, id)
	if !ok && n.extra.AllowN(now.Wall, 1) && n.load() == nil {
		l, ok = n.find(podUID, id)
	}
	if !ok {
		return n.onlyOf(podUID, seen, now.Wall)
	}
	n.links[l] = linkState{listing: n.links[l].listing, used: now.Boot}
	return l.Container, true
}

// onlyOf names the only container of a pod. An answer of the Pods API that is older
// than the acquaintance with the process does not count: the process may be of an
// ephemeral container that was added since.
func (n *names) onlyOf(podUID string, seen time.Duration, now time.Time) (gpu.Container, bool) {
	if c, ok := n.only[podUID]; ok && n.onlySince > seen {
		return c, true
	}
	if podUID == "" || !n.extra.AllowN(now, 1) {
		return gpu.Container{}, false
	}
	return n.logs.only(podUID, n.onlyByName)
}

// find looks in the index only.
func (n *names) find(podUID, id string) (logLink, bool) {
	if l, ok := n.byID[id]; ok {
		return l, podUID == "" || podUID == l.PodUID
	}
	return n.findCut(podUID, id)
}

// findCut finds a container whose link lost the end of its id, if enough is left
// of it to be nobody else's. That a pod has no other link proves nothing: its
// other containers may have none yet.
func (n *names) findCut(podUID, id string) (found logLink, ok bool) {
	for l := range n.links {
		if len(l.id) < provingDigits || !l.cut() || !strings.HasPrefix(id, l.id) {
			continue
		}
		if podUID != "" && podUID != l.PodUID {
			continue
		}
		if ok && found.Container != l.Container {
			return logLink{}, false
		}
		found, ok = l, true
	}
	return found, ok
}

// podName is how the kubelet names a pod.
type podName struct{ namespace, pod string }

// podUIDs returns the UIDs known for each pod name. The value says whether that
// pod has links, or a directory of logs, now; without, it had links once.
func (n *names) podUIDs() map[podName]map[string]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	pods := make(map[podName]map[string]bool)
	for l, state := range n.links {
		addUID(pods, podName{l.Namespace, l.Pod}, l.PodUID, state.listing == n.listing && state.listing > 0)
	}
	for uid, name := range n.logs.pods {
		addUID(pods, name, uid, true)
	}
	return pods
}

// addUID adds a pod that bears a name and may have logs now.
func addUID(pods map[podName]map[string]bool, name podName, uid string, now bool) {
	if pods[name] == nil {
		pods[name] = make(map[string]bool, 1)
	}
	pods[name][uid] = pods[name][uid] || now
}

// load reads the directories into the index. Links that lead nowhere we know, and
// those that vanish meanwhile, are passed over.
func (n *names) load() error {
	if n.dir == "" && n.logs.root == "" {
		return nil
	}
	began := n.now()
	err := errors.Join(n.readDir(began.Boot), n.logs.load())
	n.stages.Observe(stage.ContainerLogs, began, err)
	return err
}

func (n *names) readDir(now time.Duration) error {
	entries, err := readNames(n.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list container logs: mount that directory, "+
			"or containers whose names the Pods API does not tell stay unmapped: %w", err)
	}
	if err != nil {
		return fmt.Errorf("list container logs: %w", err)
	}
	n.listing++
	for _, name := range entries {
		l, ok := n.readLink(name)
		if !ok {
			continue
		}
		n.links[l] = linkState{listing: n.listing, used: now}
		if !l.cut() {
			n.byID[l.id] = l
		}
	}
	return nil
}

// readLink reads one link, unless its name ends in an id that is known: what
// belongs to a container's id never changes.
func (n *names) readLink(name string) (logLink, bool) {
	stem := strings.TrimSuffix(name, ".log")
	if l, ok := n.byID[stem[max(0, len(stem)-64):]]; ok {
		return l, true
	}
	target, err := os.Readlink(filepath.Join(n.dir, name))
	if err != nil {
		return logLink{}, false
	}
	return parseLogLink(name, target)
}
