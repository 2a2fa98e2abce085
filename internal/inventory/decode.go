package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrVersion is the error of a page whose fields may mean something else.
var ErrVersion = errors.New("unknown version")

// maxGPUs is more than any machine has. A page with more is not believed.
const maxGPUs = 64

// Decode reads one page and nothing after it. How the GPUs are divided (MIG) is left
// out: it is no identity. The caller bounds how much r gives, and what is made of it
// takes not much more memory than that, whatever the page says.
func Decode(r io.Reader) (Page, error) {
	var p struct {
		Page
		GPUs gpus `json:"gpus"`
	}
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
	if p.GPUs == nil {
		return Page{}, errors.New("decode inventory: no list of GPUs, which is not the same as an empty one")
	}
	p.Page.GPUs = p.GPUs
	return p.Page, nil
}

// gpus is a list of GPUs that is read no further than is believed: a few megabytes
// of empty ones would take a hundred times that.
type gpus []GPU

func (l *gpus) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return errors.New("the GPUs are no list")
	}
	*l = gpus{}
	for d.More() {
		if len(*l) == maxGPUs {
			return fmt.Errorf("more than %d GPUs", maxGPUs)
		}
		var g struct {
			GPU
			MIG struct{} `json:"mig"` // hides the GPU's
		}
		if err := d.Decode(&g); err != nil {
			return err
		}
		*l = append(*l, g.GPU)
	}
	return nil
}

// Contradiction returns what on the page cannot be true, and nil if all of it can.
// Two GPUs with one serial number can: they are two dies of one board.
func (p *Page) Contradiction() error {
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
