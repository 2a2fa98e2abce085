package unit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

const (
	// If this number of jobs use GPUs that their files do not name, --units.held-numbers counts as wrong.
	contradictions = 3
	maxJobUses     = 16
	// keepJobUse is the time for which the GPUs used by a job are remembered. It limits the duration of a false error.
	// If cgroups do not constrain devices, jobs can use the GPUs of other jobs, and three such jobs cause an error.
	keepJobUse = 24 * time.Hour
)

// A number names a GPU in the files of a directory. The zero value stands for a GPU that is named by its UUID.
type number struct {
	dir  prologDir
	text string
}

func (d prologDir) number(name string) number {
	text, _, _ := strings.Cut(name, ".")
	if !isNumber(text) {
		return number{}
	}
	return number{d, text}
}

type jobUse struct {
	job     jobKey
	numbers []string
	used    []gpu.Device
	last    time.Duration // boot-clock time of the last use
}

// fits reports whether the job's files name all GPUs that the job uses, if the numbers have the meaning n.
func (u jobUse) fits(n Numbers) bool {
	return !slices.ContainsFunc(u.used, func(d gpu.Device) bool {
		return !slices.ContainsFunc(u.numbers, func(number string) bool {
			name, ok := n.device(number)
			return ok && d.Named(name)
		})
	})
}

// numbering compares the GPUs that jobs use with the numbers in the jobs' files.
type numbering struct {
	devices []gpu.Device
	used    map[jobKey]map[string]bool
	// jobs contains the last jobs that have files in each directory.
	jobs    map[string][]jobUse
	numbers map[string]Numbers
}

// Used stores the UUIDs of the GPUs that owners use. The mapper compares them with prologs' files to detect a wrong
// value of --units.held-numbers.
func (m *Mapper) Used(devices []gpu.Device, by map[gpu.Owner][]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.numbering.devices = devices
	if m.numbering.used == nil {
		m.numbering.used = make(map[jobKey]map[string]bool)
	}
	for owner, uuids := range by {
		u := owner.Unit()
		if u.Manager != Slurm {
			continue
		}
		job := keyOf(u)
		if m.numbering.used[job] == nil {
			m.numbering.used[job] = make(map[string]bool)
		}
		for _, uuid := range uuids {
			m.numbering.used[job][uuid] = true
		}
	}
}

// compare stores the GPUs that each job with files used. It ignores a job whose files name a GPU by UUID, because such
// a job does not show which GPUs the numbers in files mean.
func (n *numbering) compare(claims []claim, now time.Duration) {
	n.numbers = make(map[string]Numbers)
	of := make(map[jobKey]map[string][]string) // numbers by job and directory
	byUUID := make(map[jobKey]bool)
	for _, c := range claims {
		dir := c.named.dir
		if c.named.text == "" {
			byUUID[c.job] = true
			continue
		}
		n.numbers[dir.path] = dir.numbers
		if of[c.job] == nil {
			of[c.job] = make(map[string][]string)
		}
		of[c.job][dir.path] = append(of[c.job][dir.path], c.named.text)
	}
	for _, job := range slices.Sorted(maps.Keys(n.used)) {
		for dir, numbers := range of[job] {
			if len(of[job]) == 1 && !byUUID[job] && !n.shares(job) {
				n.add(dir, jobUse{job, numbers, n.devicesOf(n.used[job]), now})
			}
		}
	}
	clear(n.used)
	for dir, uses := range n.jobs {
		n.jobs[dir] = slices.DeleteFunc(uses, func(u jobUse) bool { return now-u.last > keepJobUse })
	}
}

// shares reports whether another job used one of the job's GPUs. In some formats the file of a GPU names only the last
// job, so the files of jobs that share a GPU prove nothing.
func (n *numbering) shares(job jobKey) bool {
	for uuid := range n.used[job] {
		for other := range n.used {
			if other != job && n.used[other][uuid] {
				return true
			}
		}
	}
	return false
}

func (n *numbering) devicesOf(uuids map[string]bool) []gpu.Device {
	return slices.DeleteFunc(slices.Clone(n.devices), func(d gpu.Device) bool { return !uuids[d.UUID] })
}

func (n *numbering) add(dir string, use jobUse) {
	if n.jobs == nil {
		n.jobs = make(map[string][]jobUse)
	}
	jobs := slices.DeleteFunc(n.jobs[dir], func(u jobUse) bool { return u.job == use.job })
	jobs = append(jobs, use)
	n.jobs[dir] = jobs[max(0, len(jobs)-maxJobUses):]
}

// check returns an error if --units.held-numbers is wrong for a directory. The error proposes another value if exactly
// one value fits all jobs.
func (n *numbering) check() error {
	for _, dir := range slices.Sorted(maps.Keys(n.numbers)) {
		now := n.numbers[dir]
		wrong := slices.DeleteFunc(slices.Clone(n.jobs[dir]), func(u jobUse) bool { return u.fits(now) })
		if len(wrong) < contradictions {
			continue
		}
		var jobs []string
		for _, u := range wrong[len(wrong)-contradictions:] {
			jobs = append(jobs, string(u.job))
		}
		text, _ := now.MarshalText()
		found := fmt.Sprintf("%s: the GPUs that jobs %s use contradict --units.held-numbers=%s", dir, strings.Join(jobs, ", "), text)
		fitting := n.fitting(dir)
		if len(fitting) != 1 {
			return fmt.Errorf("%s, and no other value of the flag is known to fit: compare the prolog with gres.conf", found)
		}
		text, _ = fitting[0].MarshalText()
		return fmt.Errorf("%s: %s fits; set the flag to %[2]s, or write %[2]s into %[3]s/%[4]s", found, text, dir, numbersFile)
	}
	return nil
}

// fitting returns the values of --units.held-numbers that fit all jobs of a directory. It returns values with a list of
// device nodes only if no other value fits.
func (n *numbering) fitting(dir string) []Numbers {
	wrong := func(m Numbers) bool {
		return slices.ContainsFunc(n.jobs[dir], func(u jobUse) bool { return !u.fits(m) })
	}
	if plain := slices.DeleteFunc([]Numbers{Index, Minor, AMD}, wrong); len(plain) > 0 {
		return plain
	}
	numbers := make(map[string]bool)
	for _, u := range n.jobs[dir] {
		for _, number := range u.numbers {
			numbers[number] = true
		}
	}
	if len(numbers) < 2 {
		return nil // some list always fits a single number, so the lists cannot be distinguished
	}
	return slices.DeleteFunc(n.ranges(), wrong)
}

// ranges returns the lists of consecutive device nodes that end at the last node and do not begin at the first node.
func (n *numbering) ranges() (lists []Numbers) {
	var nodes []int
	for _, d := range n.devices {
		text, isNVIDIA := strings.CutPrefix(d.DeviceNode, "nvidia")
		if node, err := strconv.Atoi(text); isNVIDIA && err == nil {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	for i := 1; i < len(nodes); i++ {
		lists = append(lists, Numbers{meaning: minor, nodes: nodes[i:]})
	}
	return lists
}
