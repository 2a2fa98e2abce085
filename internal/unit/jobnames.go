package unit

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// arrayElement matches an element of a job array in squeue's format: <array id>_<element number>.
var arrayElement = regexp.MustCompile(`^[0-9]{1,10}_[0-9]{1,10}$`)

// readNames reads the files that task prologs write. The lines have the form name=value, and contain the job's name and
// its array element.
//
// Slurm passes these values only to the task prolog, which runs as the job's user. Therefore the prolog creates the
// file and makes the user its owner, so a user can name only the user's own jobs. readNames ignores invalid values
// without an error, so a user cannot cause an alert.
func (p *prologFiles) readNames(dir prologDir) error {
	folder := filepath.Join(dir.path, "names")
	jobs, err := listTrusted(folder, maxHeldFiles)
	if err != nil {
		return err
	}
	slices.Sort(jobs)
	for _, job := range jobs {
		key := dir.key(job)
		info, described := p.infos[key]
		uid, err := strconv.Atoi(info.UID)
		if !described || err != nil {
			continue
		}
		if data, err := readOwned(filepath.Join(folder, job), maxHeldFile, uid); err == nil {
			addNames(&info, string(data))
			p.infos[key] = info
		}
	}
	return nil
}

func addNames(info *gpu.UnitInfo, text string) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		switch {
		case name == "name" && validName(value):
			info.JobName = value
		case name == "array" && arrayElement.MatchString(value):
			info.ArrayElement = value
		}
	}
}
