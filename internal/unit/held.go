package unit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

const (
	// maxHeldFile is the maximum size of a file in bytes. maxHeldFiles is the maximum number of files in a directory.
	maxHeldFile  = 4096
	maxHeldFiles = 4096
	// maxHeldLines is the maximum number of jobs that hold one GPU.
	maxHeldLines = 64
	// maxHeld is the maximum number of GPUs that all units together hold.
	maxHeld = 8192
)

// claim is a GPU that a job holds according to a prolog's file.
type claim struct {
	device  gpu.DeviceName
	job     jobKey // empty if the file cannot be used
	named   number
	written time.Time
}

type prologFiles struct {
	claims []claim
	infos  map[jobKey]gpu.UnitInfo
	// malformed is the number of malformed GPU names. badName is the first malformed name, and badPath is its file.
	malformed        int
	badName, badPath string
}

func (p *prologFiles) reject(name, path string) {
	if p.malformed++; p.malformed == 1 {
		p.badName, p.badPath = name, path
	}
}

// check returns an error if GPU names are malformed, because the holders of these GPUs are unknown.
func (p *prologFiles) check() error {
	if p.malformed == 0 {
		return nil
	}
	return fmt.Errorf("malformed GPU names (%d, the first is %.40q in %s): must be GPU-<uuid>, MIG-<uuid>, <number> or <number>.<GPU instance id>, without ranges; if --units.held-numbers contains a list, a number must be a position in this list",
		p.malformed, p.badName, p.badPath)
}

// readPrologFiles reads the directories. A file that cannot be used does not affect other files. The error contains the
// first failure. A missing directory is not an error, because the prolog of the first job creates it.
func readPrologFiles(dirs []heldDir, n Numbers) (prologFiles, error) {
	files := prologFiles{infos: make(map[jobKey]gpu.UnitInfo)}
	var first error
	for _, d := range dirs {
		dir, err := openPrologDir(d, n)
		if err == nil {
			err = cmp.Or(missing(files.readGPUs(dir)), missing(files.readJobs(dir)), missing(files.readNames(dir)))
		}
		first = cmp.Or(first, missing(err))
	}
	return files, errors.Join(first, files.check())
}

func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// prologDir is a directory to which prologs write. It may contain a file named numbers, which defines the meaning of
// GPU numbers in the other files.
type prologDir struct {
	heldDir
	numbers Numbers
}

const numbersFile = "numbers"

// The content of a file named numbers takes precedence over n.
func openPrologDir(d heldDir, n Numbers) (prologDir, error) {
	file := filepath.Join(d.path, numbersFile)
	data, _, err := readTrusted(file, maxHeldFile)
	if err != nil {
		return prologDir{d, n}, missing(err)
	}
	if err := n.UnmarshalText(bytes.TrimSpace(data)); err != nil {
		return prologDir{}, fmt.Errorf("%s: %w", file, err)
	}
	return prologDir{d, n}, nil
}

// readGPUs reads the files that are named after a GPU or a MIG device. A file contains one line per job: the job's id,
// optionally followed by the uid of the job's user. The formats of jobstats and dcgm-exporter are special cases of this
// format.
func (p *prologFiles) readGPUs(dir prologDir) error {
	names, err := listTrusted(dir.path, maxHeldFiles)
	if err != nil {
		return err
	}
	slices.Sort(names)
	var first error
	for _, name := range names {
		device, ok := parseDevice(name, dir.numbers)
		if !ok {
			if isGPUName(name) {
				p.reject(name, dir.path)
			}
			continue
		}
		err := p.readGPU(dir, name, claim{device: device, named: dir.number(name)})
		if missing(err) == nil {
			continue
		}
		p.claims = append(p.claims, claim{device: device, job: dir.key("")})
		if first == nil {
			first = err
		}
	}
	return first
}

// isGPUName reports whether the name of a file has the form of a GPU name. Other files are ignored, because they may
// belong to another program or may be incomplete.
func isGPUName(name string) bool {
	return '0' <= name[0] && name[0] <= '9' || strings.HasPrefix(name, "GPU-") || strings.HasPrefix(name, "MIG-")
}

func (p *prologFiles) readGPU(dir prologDir, name string, c claim) error {
	path := filepath.Join(dir.path, name)
	data, info, err := readTrusted(path, maxHeldFile)
	if err != nil {
		return err
	}
	jobs, err := parseHolders(string(data), dir.manager)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, j := range jobs {
		c.job, c.written = j.job, info.ModTime()
		p.claims = append(p.claims, c)
		if info := p.infos[j.job]; j.uid != "" && info.UID == "" {
			info.UID = j.uid
			p.infos[j.job] = info
		}
	}
	return nil
}

type heldBy struct {
	job jobKey
	uid string
}

func parseHolders(text, manager string) (jobs []heldBy, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		key, ok := parseJob(fields[0], manager)
		if len(fields) > 2 || !ok || len(fields) == 2 && !isNumber(fields[1]) || len(jobs) == maxHeldLines {
			return nil, fmt.Errorf("malformed line %.40q: must be <job id> or <job id> <uid>, on at most %d lines; <manager>/<unit> is a unit of another manager", line, maxHeldLines)
		}
		j := heldBy{job: key}
		if len(fields) == 2 {
			j.uid = fields[1]
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// parseDevice parses a GPU name: GPU-<uuid>, MIG-<uuid>, <number>, or <number>.<GPU instance id>. AMD GPUs do not use
// the form with a GPU instance id, because each of their partitions has its own number.
func parseDevice(name string, n Numbers) (gpu.DeviceName, bool) {
	if strings.HasPrefix(name, "GPU-") || strings.HasPrefix(name, "MIG-") {
		return gpu.DeviceName{UUID: name}, validName(name)
	}
	number, instance, isPart := strings.Cut(name, ".")
	if !isNumber(number) || len(number) > 3 || isPart && (!isNumber(instance) || len(instance) > 3) {
		return gpu.DeviceName{}, false
	}
	d, ok := n.device(number)
	if !ok {
		return gpu.DeviceName{}, false
	}
	if isPart {
		d.Partition = &gpu.PartitionName{Instance: instance}
	}
	return d, true
}

// readJobs reads the files that are named after job ids. The lines in these files have the form name=value.
func (p *prologFiles) readJobs(dir prologDir) error {
	jobs := filepath.Join(dir.path, "jobs")
	names, err := listTrusted(jobs, maxHeldFiles)
	if err != nil {
		return err
	}
	slices.Sort(names)
	var first error
	for _, job := range names {
		if !dir.isJob(job) {
			continue
		}
		path := filepath.Join(jobs, job)
		data, info, err := readTrusted(path, maxHeldFile)
		if err != nil {
			first = cmp.Or(first, missing(err))
			continue
		}
		p.addJob(path, string(data), info.ModTime(), dir)
	}
	return first
}

// noGPUs is the value of CUDA_VISIBLE_DEVICES in the prolog of a job without GPUs.
const noGPUs = "NoDevFiles"

// addJob ignores unknown names and invalid values, but counts malformed GPU names.
func (p *prologFiles) addJob(path, text string, written time.Time, dir prologDir) {
	job := dir.key(filepath.Base(path))
	info := p.infos[job]
	fields := map[string]*string{
		"user": &info.User, "uid": &info.UID, "account": &info.Account, "partition": &info.Partition, "cluster": &info.Cluster, "sluid": &info.SLUID,
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if field := fields[name]; field != nil && validName(value) {
			*field = value
		}
		if name != "gpus" {
			continue
		}
		for device := range strings.SplitSeq(value, ",") {
			switch d, ok := parseDevice(device, dir.numbers); {
			case ok:
				p.claims = append(p.claims, claim{d, job, dir.number(device), written})
			case device != "" && device != noGPUs:
				p.reject(device, path)
			}
		}
	}
	p.infos[job] = info
}
