package blindness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// prologMode describes the errors in the prolog's files.
type prologMode int

const (
	prologTrue prologMode = iota
	prologMissing
	// prologFalse means that the files name a job that does not exist.
	prologFalse
	// prologLate means that the files omit jobs that begin during the outage.
	prologLate
)

const falseJob = "999"

func prologs(mode prologMode) func(*machine, Spell) error {
	return func(m *machine, s Spell) error {
		m.prolog, m.prologSince = mode, s.From
		return nil
	}
}

// writeHeld writes the changed files of Slurm's prolog and epilog: one file for each GPU, and one for each job.
func (m *machine) writeHeld(at time.Duration) error {
	files := make(map[string]string)
	for i := range m.schedule.Owners {
		o := &m.schedule.Owners[i]
		late := m.prolog == prologLate && o.From >= m.prologSince
		if !o.Job || !o.life().covers(at) || late || m.prolog == prologMissing {
			continue
		}
		name, number := o.Name, strconv.Itoa(o.GPU)
		if m.prolog == prologFalse {
			name = falseJob
			files[number] = ""
		}
		files["jobs/"+name] = fmt.Sprintf("uid=%d\nuser=ada\naccount=physics\npartition=gpu\ncluster=alps\n", jobUser)
		files[number] += fmt.Sprintf("%s %d\n", name, jobUser)
	}
	return m.replaceHeld(files)
}

// replaceHeld does not write a file that is already correct, because the exporter uses the modification time.
func (m *machine) replaceHeld(files map[string]string) error {
	for name, text := range files {
		if m.held[name] == text {
			continue
		}
		path := filepath.Join(m.heldDir(), name)
		temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
		if err := os.WriteFile(temporary, []byte(text), 0o644); err != nil {
			return err
		}
		if err := os.Rename(temporary, path); err != nil {
			return err
		}
	}
	for name := range m.held {
		if _, kept := files[name]; kept {
			continue
		}
		if err := os.Remove(filepath.Join(m.heldDir(), name)); err != nil {
			return err
		}
	}
	m.held = files
	return nil
}

func (m *machine) heldDir() string { return m.group.Path("held") }

// Only root may write to these directories.
func (m *machine) openHeld() error {
	return os.MkdirAll(filepath.Join(m.heldDir(), "jobs"), 0o755)
}
