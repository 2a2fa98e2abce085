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

// keepNames is the time for which a container is stored after its link was last listed or looked up. After the kubelet
// has removed a link, two things must happen within this time: the container's processes end, and the kubelet's last
// response becomes stale.
const keepNames = 5 * time.Minute

// minIDDigits is the number of digits of a container's id that suffice to identify the container. Container engines
// also display 12 digits.
const minIDDigits = 12

// names is an index of containers from the kubelet's log links, log directories and Pods API. It is safe for concurrent
// use.
type names struct {
	dir     string
	logRoot string // root of the log directories, or empty
	limit   int    // maximum number of entries in each directory
	timeout time.Duration
	now     gpu.Clock
	stages  *stage.Set
	// extra limits the rate of reads for unknown containers.
	extra *rate.Limiter
	disk  disk

	// mu is never held while the disk is read.
	mu    sync.Mutex
	links map[string]*link // log links by the result of their method key
	logs  podLogs
	// single and singleByName contain the container of each pod that has only one container. single comes from the Pods
	// API and contains pod UIDs as keys. singleByName comes from the pod-resources API and contains pod names as keys.
	single       map[string]gpu.Owner
	singleAsked  time.Duration // boot-clock time at which single was requested
	singleByName map[podName]string
	// listing counts the successful reads of the directory of links.
	listing uint64
}

// link is a log link, or a container from the Pods API, with the time of its last use.
type link struct {
	logLink
	listing uint64        // number of the last listing that contained the link
	used    time.Duration // boot-clock time at which the link was last listed or looked up
}

func newNames(cfg Config) *names {
	return &names{
		dir:     cfg.ContainerLogs,
		logRoot: cfg.PodLogs,
		limit:   maxLogs,
		timeout: min(callTimeout, cfg.Poll),
		now:     cfg.Now,
		stages:  cfg.Stages,
		extra:   rate.NewLimiter(2, 5),
		disk:    make(disk, 1),
		links:   make(map[string]*link),
	}
}

// forget drops containers that were not used for keepNames. It keeps the containers of live pods that the last
// successful listing contained. The UIDs in allocations come from these containers, even while the directories cannot
// be read.
func (n *names) forget(live map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	oldest := n.now().Boot - keepNames
	maps.DeleteFunc(n.links, func(_ string, l *link) bool {
		return l.used < oldest && !(live[l.UID] && n.current(l))
	})
}

// maxNames is the number of stored containers above which old containers are dropped. It is a few times as large as the
// limit for one listing.
const maxNames = 50_000

// If there are more than maxNames containers, enforceLimit drops the containers that were last used before the given
// time. The caller holds n.mu.
func (n *names) enforceLimit(since time.Duration) {
	if len(n.links) > maxNames {
		maps.DeleteFunc(n.links, func(_ string, l *link) bool { return l.used < since })
	}
}

// The caller holds n.mu.
func (n *names) remember(l logLink) *link {
	key := l.key()
	known := n.links[key]
	if known == nil || known.logLink != l {
		known = &link{logLink: l}
		n.links[key] = known
	}
	return known
}

// current reports whether the last listing contained the link.
func (n *names) current(l *link) bool { return l.listing == n.listing && l.listing > 0 }

// hasLogs reports whether log directories are configured. On a host without Kubernetes, no log directories are
// configured.
func (n *names) hasLogs() bool { return n.dir != "" || n.logRoot != "" }

func (n *names) refresh(ctx context.Context) error {
	if !n.hasLogs() {
		return nil
	}
	began := n.now()
	due, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	err, ok := runInTurn(due, n.disk, n.load)
	if ctx.Err() != nil { // an error because the context ended is not a failure of the stage
		return ctx.Err()
	}
	if !ok {
		err = fmt.Errorf("list container logs: reading %s timed out after %v; the read is still pending", n.dir, n.timeout)
	}
	n.stages.Observe(stage.ContainerLogs, began, err)
	return err
}

// learn stores the containers with known ids from a response of the Pods API. It also stores the containers that are
// the only container in their pod. requested is the time at which the response was requested.
func (n *names) learn(containers []logLink, single map[string]gpu.Owner, requested time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now().Boot
	for _, l := range containers {
		n.remember(l).used = now
	}
	n.enforceLimit(now)
	n.single, n.singleAsked = single, requested
}

// learnSingle stores, by pod name, the container of each pod that has only one container.
func (n *names) learnSingle(containers map[podName]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.singleByName = containers
}

// lookup returns the container with the given id. If podUID is not empty, the container must belong to this pod. For an
// unknown container, lookup reads the directory again, because the container may have just started. In a sandbox
// (gVisor), the id in the cgroup of a process is not the id of a container. Such a process is attributed to the only
// container in its pod. The pod must have had no other container since the process was first seen.
func (n *names) lookup(podUID, id string, seen time.Duration) (gpu.Owner, bool) {
	now := n.now()
	c, ok := n.indexed(podUID, id, now.Boot)
	if !ok && n.hasLogs() && n.extra.AllowN(now.Wall, 1) {
		if err, read := tryRun(n.disk, n.load); read && err == nil {
			c, ok = n.indexed(podUID, id, now.Boot)
		}
	}
	if !ok {
		return n.singleContainer(podUID, seen, now.Wall)
	}
	return c, true
}

// singleContainer returns the only container of a pod. It uses a response of the Pods API only if the response is newer
// than the first observation of the process. Otherwise the process may belong to an ephemeral container that the
// response does not contain.
func (n *names) singleContainer(podUID string, seen time.Duration, now time.Time) (gpu.Owner, bool) {
	n.mu.Lock()
	c, ok := n.single[podUID]
	ok = ok && n.singleAsked > seen
	logs, single := n.logs, n.singleByName
	n.mu.Unlock()
	if ok {
		return c, true
	}
	if podUID == "" || !n.extra.AllowN(now, 1) {
		return gpu.Owner{}, false
	}
	c, ok = tryRun(n.disk, func() gpu.Owner { return logs.single(podUID, single) })
	return c, ok && c.Part != ""
}

// pod returns the owner of the pod's processes, without a container.
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

// indexed returns a container from the index, without reading the disk.
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

// The caller holds n.mu.
func (n *names) find(podUID, id string) *link {
	l, known := n.links[id]
	switch {
	case !known:
		return n.findTruncated(podUID, id)
	case podUID != "" && podUID != l.UID:
		return nil
	}
	return l
}

// findTruncated finds a container whose link contains a truncated id. The id must have at least minIDDigits digits,
// even if the pod has only one link. The links of other containers of the pod may not exist yet.
func (n *names) findTruncated(podUID, id string) (found *link) {
	for _, l := range n.links {
		if len(l.id) < minIDDigits || !l.truncated() || !strings.HasPrefix(id, l.id) {
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

type podName struct{ namespace, pod string }

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

// load reads the directories into the index. The caller holds n.disk.
func (n *names) load() error {
	began := n.now().Boot
	links, linksErr := n.readLinks()
	logs, logsErr := readPodLogs(n.logRoot, n.limit)
	n.mu.Lock()
	defer n.mu.Unlock()
	if linksErr == nil {
		n.listing++
	}
	for _, l := range links {
		known := n.remember(l)
		known.listing, known.used = n.listing, began
	}
	n.enforceLimit(began)
	if logsErr == nil {
		n.logs = logs
	}
	return errors.Join(linksErr, logsErr)
}

// readLinks reads the log links. It skips a link if the target has an unknown format, or if the link is removed while
// the directory is read.
func (n *names) readLinks() ([]logLink, error) {
	entries, err := readNames(n.dir, n.limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list container logs: the directory is missing; mount it, "+
			"or containers that are missing from the kubelet's Pods API stay unmapped: %w", err)
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

// readLink reads a log link. If the name of the link ends with a known container id, readLink does not read the target.
// The pod and the name of a container never change.
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
