package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrVersion is in the error chain if the version of a page differs from [Version]. The fields of this page may have
// another meaning.
var ErrVersion = errors.New("unknown version")

const maxGPUs = 64

// list has room for one GPU more than the limit, and the decoder discards all further elements. Otherwise a few
// megabytes of empty GPUs would need a hundred times their size in memory.
type list [maxGPUs + 1]*struct {
	GPU
	MIG struct{} `json:"mig"` // hides the field MIG of the embedded GPU
}

// Decode reads one page and rejects trailing data. It omits MIG partitions, because they are not part of a GPU's
// identity. The caller must limit the length of r. The result needs little more memory than the length of r, regardless
// of the content.
func Decode(r io.Reader) (Page, error) {
	var p struct {
		Page
		GPUs *list `json:"gpus"`
	}
	d := json.NewDecoder(r)
	if err := d.Decode(&p); err != nil {
		return Page{}, fmt.Errorf("decode inventory: %w", err)
	}
	if p.Version != Version {
		return Page{}, fmt.Errorf("decode inventory: %w %d, must be %d", ErrVersion, p.Version, Version)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Page{}, errors.New("decode inventory: trailing data after the page")
	}
	if p.GPUs == nil {
		return Page{}, errors.New("decode inventory: the list of GPUs is missing (an empty list is valid)")
	}
	if p.GPUs[maxGPUs] != nil {
		return Page{}, fmt.Errorf("decode inventory: more than %d GPUs", maxGPUs)
	}
	p.Page.GPUs = p.GPUs.present()
	return p.Page, nil
}

func (l *list) present() []GPU {
	n := 0
	for _, g := range l {
		if g != nil {
			n++
		}
	}
	gpus := make([]GPU, 0, n)
	for _, g := range l {
		if g != nil {
			gpus = append(gpus, g.GPU)
		}
	}
	return gpus
}

// Contradiction returns an error if the content of the page is impossible. Two GPUs may have the same serial number,
// because they may be dies of one board.
func (p *Page) Contradiction() error {
	uuids, addresses := make(map[string]bool), make(map[string]bool)
	for _, g := range p.GPUs {
		switch {
		case g.UUID == "":
			return errors.New("a GPU has no UUID")
		case g.PCIBusID == "":
			return fmt.Errorf("GPU %.96q has no PCI address", g.UUID)
		case uuids[g.UUID]:
			return fmt.Errorf("GPU %.96q is listed twice", g.UUID)
		case g.Present && addresses[g.PCIBusID]:
			return fmt.Errorf("two GPUs are present at PCI address %.96q", g.PCIBusID)
		}
		uuids[g.UUID] = true
		addresses[g.PCIBusID] = addresses[g.PCIBusID] || g.Present
	}
	return nil
}
