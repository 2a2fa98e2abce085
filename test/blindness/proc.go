package blindness

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// The exporter reads /proc through a link. An outage moves the link to another directory.
const (
	procLink  = "proc"
	procEmpty = "proc.empty"
	// procHidden contains no process of another user, like a mount with the option hidepid.
	procHidden = "proc.hidden"
	procGone   = "proc.gone"
)

func (m *machine) openProc() error {
	hidden, whole := m.group.Path(procHidden), filepath.Join(m.node.Dir(), "proc")
	if err := errors.Join(os.Mkdir(m.group.Path(procEmpty), 0o755), os.Mkdir(hidden, 0o755)); err != nil {
		return err
	}
	self, err := os.Readlink(filepath.Join(whole, "self"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range []string{"stat", "sys", "self", self} {
		if err := os.Symlink(filepath.Join(whole, name), filepath.Join(hidden, name)); err != nil {
			return err
		}
	}
	return m.showProc(whole)
}

func (m *machine) showProc(dir string) error {
	next := m.group.Path("proc.next")
	return errors.Join(os.Symlink(dir, next), os.Rename(next, m.group.Path(procLink)))
}

func (m *machine) emptyProc(Spell) error  { return m.showProc(m.group.Path(procEmpty)) }
func (m *machine) removeProc(Spell) error { return m.showProc(m.group.Path(procGone)) }
func (m *machine) hideProc(Spell) error   { return m.showProc(m.group.Path(procHidden)) }
func (m *machine) restoreProc(Spell) error {
	return m.showProc(filepath.Join(m.node.Dir(), "proc"))
}
