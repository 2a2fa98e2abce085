package simnode

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	podsapi "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
)

// The methods of kubelet that handle requests are safe for concurrent use.
type kubelet struct {
	dir      string
	scenario *Scenario
	sockets  []*socket

	mu     sync.Mutex
	pods   []*pod
	at     time.Duration // time since the start
	random *rand.Rand
}

// openKubelet starts a kubelet. It serves until it is closed.
func openKubelet(dir string, sc *Scenario) (*kubelet, error) {
	k := &kubelet{dir: dir, scenario: sc, random: rand.New(rand.NewPCG(3, 4))}
	return k, k.setRunning(!sc.NoKubelet)
}

func (k *kubelet) setRunning(up bool) error {
	switch served := len(k.sockets) > 0; {
	case up && !served:
		return k.open()
	case !up && served:
		return k.close()
	}
	return nil
}

// open serves the pod-resources API. It also serves the Pods API if the scenario includes it.
func (k *kubelet) open() error {
	err := k.serve(podResourcesSocket(k.dir), func(r grpc.ServiceRegistrar) {
		podresources.RegisterPodResourcesListerServer(r, &podResources{kubelet: k})
	})
	if err != nil {
		return fmt.Errorf("serve pod resources: %w", err)
	}
	if !k.scenario.PodsAPI {
		return nil
	}
	err = k.serve(podsAPISocket(k.dir), func(r grpc.ServiceRegistrar) {
		podsapi.RegisterPodsServer(r, &podsAPI{kubelet: k})
	})
	if err != nil {
		return errors.Join(fmt.Errorf("serve Pods API: %w", err), k.close())
	}
	return nil
}

func (k *kubelet) serve(path string, register func(grpc.ServiceRegistrar)) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	s, err := openSocket(path, register)
	if err != nil {
		return err
	}
	k.sockets = append(k.sockets, s)
	return nil
}

func (k *kubelet) close() error {
	var errs []error
	for _, s := range k.sockets {
		errs = append(errs, s.close())
	}
	k.sockets = nil
	return errors.Join(errs...)
}

func (k *kubelet) set(pods []*pod, at time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods = slices.DeleteFunc(slices.Clone(pods), func(p *pod) bool { return p.spec.Unit != nil })
	k.at = at
}

func podResourcesSocket(dir string) string {
	return filepath.Join(dir, "kubelet/pod-resources/kubelet.sock")
}

func podsAPISocket(dir string) string { return filepath.Join(dir, "kubelet/pods-api/pods-api.sock") }
