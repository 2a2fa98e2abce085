package nvml

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Release closes the driver or some of its GPUs until a given time. A driver can be unloaded only if no process uses
// the driver. A GPU can be reset only if no process has opened the GPU. While the whole driver is released, Read
// returns the Release as an error.
type Release struct {
	// GPU is the UUID, the serial number or the PCI address of the released GPUs. It is empty if the whole driver is
	// released.
	GPU   string
	Until time.Time
	// Ends is the same time as Until, but on the boot clock. The boot clock cannot be set.
	Ends time.Duration
	// By is the user who requested the release.
	By string

	gpus, others []gpu.Device
}

func (r Release) Error() string {
	what := ""
	if r.GPU != "" {
		what = "GPU " + r.GPU + " "
	}
	return fmt.Sprintf("%sreleased until %s by %s", what, r.Until.Local().Format(time.TimeOnly), r.By)
}

func (r *Release) all() bool { return r != nil && r.GPU == "" }

func (r *Release) same(other *Release) bool {
	return r != nil && other != nil && r.GPU == other.GPU && r.By == other.By && r.Until.Equal(other.Until)
}

// Release requests the release r, which the next Read performs. If r is nil, Release ends the current release. Release
// reports whether the request was carried out. NVML cannot close a single GPU, so the driver is closed and opened again
// without the released GPU.
func (s *Source) Release(r *Release) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.release.same(r) {
		if r != nil && !r.all() && len(s.memories.devices()) == 0 {
			return false, nil // no GPU has been read yet
		}
		if err := s.choose(r); err != nil {
			return false, err
		}
		s.release = r
	}
	switch {
	case r == nil:
		return true, nil
	case r.all():
		return s.closedDriver(), nil
	}
	return s.session != nil && s.session.release == s.release, nil
}

// A lost GPU can also be released.
func (s *Source) choose(r *Release) error {
	if r == nil || r.all() {
		return nil
	}
	present := func(d gpu.Device) bool {
		return slices.ContainsFunc(s.known, func(k gpu.Device) bool { return k.UUID == d.UUID })
	}
	found := false
	for _, d := range s.memories.devices() {
		switch {
		case !named(d, r.GPU):
			r.others = append(r.others, d)
			continue
		case present(d):
			d.Released = true
			r.gpus = append(r.gpus, d)
		}
		found = true
	}
	switch i := slices.IndexFunc(r.others, func(d gpu.Device) bool { return d.PCIBusID == "" }); {
	case !found:
		return fmt.Errorf("no GPU has the UUID, serial number or PCI address %s", r.GPU)
	case i >= 0:
		return fmt.Errorf("the PCI address of GPU %s is unknown, so this GPU cannot be opened without the released GPU", r.others[i].UUID)
	}
	return nil
}

// named ignores leading zeros in PCI addresses, because programs print PCI domains with different numbers of zeros.
func named(d gpu.Device, name string) bool {
	address := func(bus string) string { return strings.TrimLeft(bus, "0") }
	return d.UUID == name || d.Serial == name || d.PCIBusID != "" && strings.EqualFold(address(d.PCIBusID), address(name))
}

func (s *Source) inForce() *Release {
	if s.release != nil && s.cfg.Now().Boot >= s.release.Ends {
		s.release = nil
	}
	return s.release
}

func (s *Source) closedDriver() bool { return s.session == nil && !s.opening.Busy() }
