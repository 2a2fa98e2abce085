package blindness

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The state directory is a separate file system, so that an outage can fill it or make it read-only.

func (m *machine) stateDir() string { return m.group.Path("state") }

func (m *machine) filler() string { return m.group.Path("state", "filler") }

// If the test may not mount file systems, the state directory is a plain directory, and its outages have no effect.
func (m *machine) openState() error {
	if err := os.Mkdir(m.stateDir(), 0o755); err != nil {
		return err
	}
	err := unix.Mount("state", m.stateDir(), "tmpfs", unix.MS_NODEV|unix.MS_NOSUID, "size=1m,mode=755")
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mount the state directory: %w", err)
	}
	m.mounted = true
	return nil
}

func (m *machine) closeState() error {
	if !m.mounted {
		return nil
	}
	return unix.Unmount(m.stateDir(), unix.MNT_DETACH)
}

func (m *machine) fillState(Spell) error {
	if !m.mounted {
		return nil
	}
	file, err := os.Create(m.filler())
	if err != nil {
		return err
	}
	defer file.Close()
	for page := bytes.Repeat([]byte{'x'}, os.Getpagesize()); ; {
		if _, err := file.Write(page); errors.Is(err, unix.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (m *machine) emptyState(Spell) error {
	if !m.mounted {
		return nil
	}
	return os.Remove(m.filler())
}

// A file system with a file that is open for writing cannot become read-only. Therefore protectState stops the exporter
// for the change.
func (m *machine) protectState(s Spell) error {
	if !m.mounted {
		return nil
	}
	running := m.exporter != nil
	if running {
		if err := m.kill(s); err != nil {
			return err
		}
	}
	if err := m.remount(unix.MS_RDONLY); err != nil || !running {
		return err
	}
	return m.launch(s)
}

func (m *machine) releaseState(Spell) error {
	if !m.mounted {
		return nil
	}
	return m.remount(0)
}

func (m *machine) remount(flags uintptr) error {
	err := unix.Mount("state", m.stateDir(), "tmpfs", unix.MS_REMOUNT|unix.MS_NODEV|unix.MS_NOSUID|flags, "size=1m")
	if err != nil {
		return fmt.Errorf("remount the state directory: %w", err)
	}
	return nil
}
