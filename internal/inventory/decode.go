package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrVersion is the error of a page whose fields may mean something else.
var ErrVersion = errors.New("unknown version")

// maxGPUs is more than any machine has. A page with more is not believed.
const maxGPUs = 64

// Decode reads one page and nothing after it. The caller bounds how much r gives.
func Decode(r io.Reader) (Page, error) {
	var p Page
	d := json.NewDecoder(r)
	if err := d.Decode(&p); err != nil {
		return Page{}, fmt.Errorf("decode inventory: %w", err)
	}
	if p.Version != Version {
		return Page{}, fmt.Errorf("decode inventory: %w %d, want %d", ErrVersion, p.Version, Version)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Page{}, errors.New("decode inventory: something follows the page")
	}
	return p, nil
}

// Contradiction returns what on the page cannot be true, and nil if all of it can.
// Two GPUs with one serial number can: they are two dies of one board.
func (p *Page) Contradiction() error {
	if len(p.GPUs) > maxGPUs {
		return fmt.Errorf("%d GPUs are more than any machine has", len(p.GPUs))
	}
	uuids, addresses := make(map[string]bool), make(map[string]bool)
	for _, g := range p.GPUs {
		switch {
		case g.UUID == "":
			return errors.New("a GPU has no UUID")
		case g.PCIBusID == "":
			return fmt.Errorf("GPU %.96q has no PCI address", g.UUID)
		case uuids[g.UUID]:
			return fmt.Errorf("GPU %.96q is there twice", g.UUID)
		case g.Present && addresses[g.PCIBusID]:
			return fmt.Errorf("two GPUs are present at PCI address %.96q", g.PCIBusID)
		}
		uuids[g.UUID] = true
		addresses[g.PCIBusID] = addresses[g.PCIBusID] || g.Present
	}
	return nil
}
