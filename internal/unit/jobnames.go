package unit

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// arrayElement matches the id of a job array and the number of an element, in the format of squeue.
var arrayElement = regexp.MustCompile(`^[0-9]{1,10}_[0-9]{1,10}$`)

// readNames reads the files that task prologs write. Their lines have the form name=value. The lines contain the
// name of a job. If the job is part of an array, they also contain the number of its element. The prolog cannot
// write these values, because Slurm does not pass them to the prolog. Instead, the prolog creates the file and
// makes the job's user the owner of the file. Therefore the user can name only the user's own jobs. readNames
// ignores invalid values without an error, so that a user cannot make a stage fail.
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

// addNames adds the content of a file. It ignores unknown names and invalid values.
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
