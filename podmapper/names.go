package podmapper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
// than its processes are, and than an answer of the kubelet counts.
const keepNames = 5 * time.Minute

// provingDigits is how much of a container's id proves which one is meant: 48
// bits, as many as the container engines themselves show.
const provingDigits = 12

// names is an index of containers: of the kubelet's log links and log directories,
// and of what its Pods API says. It is safe for concurrent use.
type names struct {
	dir     string
	logRoot string // of the log directories; empty if there are none
	most    int    // entries of each
	timeout time.Duration
	now     gpu.Clock
	stages  *stage.Set
	// extra limits the readings for the sake of an unknown container.
	extra *rate.Limiter
	disk  disk

	// mu is never held while the disk is read.
	mu    sync.Mutex
	links map[string]*link // by their keys
	logs  podLogs
	// only holds the container of each pod that has only one, by UID and, as far as
	// the pod-resources API tells, by name.
	only       map[string]gpu.Owner
	onlySince  time.Duration // when the Pods API was asked for it, on the boot clock
	onlyByName map[podName]string
	// listing counts the readings of the directory.
	listing uint64
}

// link is a log link, or what stands for one in an answer of the Pods API, and how current
// it is.
type link struct {
	logLink
	listing uint64        // the last listing that had it
	used    time.Duration // when it was last listed or looked up, on the boot clock
}

func newNames(cfg Config) *names {
	return &names{
		dir:     cfg.ContainerLogs,
		logRoot: cfg.PodLogs,
		most:    maxLogs,
		timeout: min(callTimeout, cfg.Poll),
		now:     cfg.Now,
		stages:  cfg.Stages,
		extra:   rate.NewLimiter(2, 5),
		disk:    make(disk, 1),
		links:   make(map[string]*link),
	}
}

// forget drops what is long gone. While the directories cannot be read, the containers of
// pods that live stay as they were last listed: what they were given is known by their UID.
func (n *names) forget(live map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	oldest := n.now().Boot - keepNames
	maps.DeleteFunc(n.links, func(_ string, l *link) bool {
		return l.used < oldest && !(live[l.UID] && n.current(l))
	})
}

// maxNames bounds the containers that are remembered, a few times those that one listing
// may have.
const maxNames = 50_000

// bound drops all but the current containers if there are too many. The caller holds n.mu.
func (n *names) bound(since time.Duration) {
	if len(n.links) > maxNames {
		maps.DeleteFunc(n.links, func(_ string, l *link) bool { return l.used < since })
	}
}

// remember returns a link as it is remembered from now on. The caller holds n.mu.
func (n *names) remember(l logLink) *link {
	key := l.key()
	known := n.links[key]
	if known == nil || known.logLink != l {
		known = &link{logLink: l}
		n.links[key] = known
	}
	return known
}

// current reports whether the last listing had a link.
func (n *names) current(l *link) bool { return l.listing == n.listing && l.listing > 0 }

// hasLogs reports whether there are directories to read: none on a host without
// Kubernetes.
func (n *names) hasLogs() bool { return n.dir != "" || n.logRoot != "" }

// refresh reads the directories, and says how that goes.
func (n *names) refresh(ctx context.Context) error {
	if !n.hasLogs() {
		return nil
	}
	began := n.now()
	due, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	err, ok := wait(due, n.disk, n.load)
	if ctx.Err() != nil { // nobody's fault
		return ctx.Err()
	}
	if !ok {
		err = fmt.Errorf("list container logs: reading %s timed out after %v, still waiting for it to return", n.dir, n.timeout)
	}
	n.stages.Observe(stage.ContainerLogs, began, err)
	return err
}

// learn takes in what the Pods API says that was asked at the given time: the
// containers whose ids are known, and those that are the only ones of their pods.
func (n *names) learn(containers []logLink, only map[string]gpu.Owner, asked time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now().Boot
	for _, l := range containers {
		n.remember(l).used = now
	}
	n.bound(now)
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
func (n *names) lookup(podUID, id string, seen time.Duration) (gpu.Owner, bool) {
	now := n.now()
	c, ok := n.indexed(podUID, id, now.Boot)
	if !ok && n.hasLogs() && n.extra.AllowN(now.Wall, 1) {
		if err, read := glance(n.disk, n.load); read && err == nil {
			c, ok = n.indexed(podUID, id, now.Boot)
		}
	}
	if !ok {
		return n.onlyOf(podUID, seen, now.Wall)
	}
	return c, true
}

// onlyOf names the only container of a pod. An answer of the Pods API that is older
// than the acquaintance with the process does not count: the process may be of an
// ephemeral container that was added since.
func (n *names) onlyOf(podUID string, seen time.Duration, now time.Time) (gpu.Owner, bool) {
	n.mu.Lock()
	c, ok := n.only[podUID]
	ok = ok && n.onlySince > seen
	logs, alone := n.logs, n.onlyByName
	n.mu.Unlock()
	if ok {
		return c, true
	}
	if podUID == "" || !n.extra.AllowN(now, 1) {
		return gpu.Owner{}, false
	}
	c, ok = glance(n.disk, func() gpu.Owner { return logs.only(podUID, alone) })
	return c, ok && c.Part != ""
}

// pod names a pod by its UID. The container's name is empty.
func (n *names) pod(uid string) (gpu.Owner, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, ok := n.logs.pods[uid]; ok {
		return gpu.Owner{Kind: gpu.OwnerPod, Scope: name.namespace, Name: name.pod, UID: uid}, true
	}
	for _, l := range n.links {
		if l.UID == uid {
			return gpu.Owner{Kind: gpu.OwnerPod, Scope: l.Scope, Name: l.Name, UID: uid}, true
		}
	}
	return gpu.Owner{}, false
}

// indexed looks in the index only.
func (n *names) indexed(podUID, id string, now time.Duration) (gpu.Owner, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.find(podUID, id)
	if l == nil {
		return gpu.Owner{}, false
	}
	l.used = now
	return l.Owner, true
}

// find looks in the index, and returns nil if nothing is found there. The caller holds
// n.mu.
func (n *names) find(podUID, id string) *link {
	l, known := n.links[id]
	switch {
	case !known:
		return n.findCut(podUID, id)
	case podUID != "" && podUID != l.UID:
		return nil
	}
	return l
}

// findCut finds a container whose link lost the end of its id, if enough is left
// of it to be nobody else's. That a pod has no other link proves nothing: its
// other containers may have none yet.
func (n *names) findCut(podUID, id string) (found *link) {
	for _, l := range n.links {
		if len(l.id) < provingDigits || !l.cut() || !strings.HasPrefix(id, l.id) {
			continue
		}
		if podUID != "" && podUID != l.UID {
			continue
		}
		if found != nil && found.Owner != l.Owner {
			return nil
		}
		found = l
	}
	return found
}

// podName is how the kubelet names a pod.
type podName struct{ namespace, pod string }

// candidates returns the pods known for each name.
func (n *names) candidates() candidates {
	n.mu.Lock()
	defer n.mu.Unlock()
	pods := make(candidates, len(n.links))
	for _, l := range n.links {
		pods.add(podName{l.Scope, l.Name}, l.UID, n.current(l))
	}
	for uid, name := range n.logs.pods {
		pods.add(name, uid, true)
	}
	return pods
}

// load reads the directories into the index. It runs in turn with whatever else reads
// the disk.
func (n *names) load() error {
	began := n.now().Boot
	links, linksErr := n.readLinks()
	logs, logsErr := readPodLogs(n.logRoot, n.most)
	n.mu.Lock()
	defer n.mu.Unlock()
	if linksErr == nil {
		n.listing++
	}
	for _, l := range links {
		known := n.remember(l)
		known.listing, known.used = n.listing, began
	}
	n.bound(began)
	if logsErr == nil {
		n.logs = logs
	}
	return errors.Join(linksErr, logsErr)
}

// readLinks reads all links. Those that lead nowhere we know, and those that vanish
// meanwhile, are passed over.
func (n *names) readLinks() ([]logLink, error) {
	entries, err := readNames(n.dir, n.most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list container logs: mount this directory, "+
			"or containers missing from the kubelet's Pods API stay unmapped: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("list container logs: %w", err)
	}
	links := make([]logLink, 0, len(entries))
	for _, name := range entries {
		if l, ok := n.readLink(name); ok {
			links = append(links, l)
		}
	}
	return links, nil
}

// readLink reads one link, unless its name ends in an id that is known: what
// belongs to a container's id never changes.
func (n *names) readLink(name string) (logLink, bool) {
	stem := strings.TrimSuffix(name, ".log")
	n.mu.Lock()
	known := n.links[stem[max(0, len(stem)-64):]]
	n.mu.Unlock()
	if known != nil {
		return known.logLink, true
	}
	target, err := os.Readlink(filepath.Join(n.dir, name))
	if err != nil {
		return logLink{}, false
	}
	return parseLogLink(name, target)
}
