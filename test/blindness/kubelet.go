package blindness

import (
	"errors"
	"net"
	"os"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

func (m *machine) stopKubelet(Spell) error { return m.happen(simnode.StopKubelet) }

func (m *machine) muteKubelet(Spell) error {
	if err := m.happen(simnode.StopKubelet); err != nil {
		return err
	}
	for _, socket := range []string{"pod-resources/kubelet.sock", "pods-api/pods-api.sock"} {
		path := m.group.Path("node", "kubelet", socket)
		if _, err := os.Stat(path[:len(path)-len("/pods-api.sock")]); err != nil && socket != "pod-resources/kubelet.sock" {
			continue // the node has no Pods API
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			return err
		}
		m.mute = append(m.mute, l)
	}
	return nil
}

func (m *machine) startKubelet(Spell) error {
	var errs []error
	for _, l := range m.mute {
		errs = append(errs, l.Close())
	}
	m.mute = nil
	return errors.Join(append(errs, m.happen(simnode.StartKubelet))...)
}

func (m *machine) unloadDriver(Spell) error { return m.happen(simnode.UnloadDriver) }
func (m *machine) loadDriver(Spell) error   { return m.happen(simnode.LoadDriver) }

func (m *machine) happen(do simnode.Action) error {
	m.node.Happen(simnode.Event{Do: do})
	return m.advance()
}
