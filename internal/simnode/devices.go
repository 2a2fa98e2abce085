package simnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Devices returns the directory with the device files of NVIDIA's driver. The fake driver library locks each device
// file that it opens.
func (n *Node) Devices() string { return filepath.Join(n.dir, "dev") }

// Every process that uses a GPU opens this device file.
const control = "nvidiactl"

func deviceFile(minor int) string { return fmt.Sprintf("nvidia%d", minor) }

func (n *Node) writeDevices() error {
	files := map[string]string{control: ""}
	for _, b := range n.world.boards {
		if b.AMD == nil {
			files[deviceFile(b.index)] = ""
		}
	}
	return writeFiles(n.Devices(), files)
}

// ErrInUse means that a process has opened the driver or the GPU.
var ErrInUse = errors.New("in use by another client")

// Unload unloads NVIDIA's driver, unless a process has opened it.
func (n *Node) Unload() error {
	if err := n.inUse(control); err != nil {
		return err
	}
	n.Happen(Event{Do: UnloadDriver})
	return nil
}

// Reset resets the GPU at a position in the scenario, unless a process has opened the GPU.
func (n *Node) Reset(gpu int) error {
	n.mu.Lock()
	minor := n.world.boards[gpu].index
	n.mu.Unlock()
	if err := n.inUse(deviceFile(minor)); err != nil {
		return err
	}
	n.Happen(Event{Do: ResetGPU, GPU: gpu})
	return nil
}

func (n *Node) inUse(name string) error {
	file, err := os.Open(filepath.Join(n.Devices(), name))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%s: %w", name, ErrInUse)
	}
	return nil
}
