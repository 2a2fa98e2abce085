package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrVersion is the error for a page of another version, in which fields may have another meaning.
var ErrVersion = errors.New("unknown version")

// maxGPUs is higher than the number of GPUs in any machine. Pages with more are rejected.
const maxGPUs = 64

// Decode reads one page and rejects trailing data. It omits the partitions of the GPUs (MIG), which
// are not identity. The caller limits the length of r; the result needs little more memory than r,
// independent of the content.
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
		return Page{}, fmt.Errorf("decode inventory: %w %d, must be %d", ErrVersion, p.Version, Version)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Page{}, errors.New("decode inventory: trailing data after the page")
	}
	if p.GPUs == nil {
		return Page{}, errors.New("decode inventory: the list of GPUs is missing (an empty list is valid)")
	}
	p.Page.GPUs = p.GPUs
	return p.Page, nil
}

// gpus is a list of GPUs that stops decoding at the limit, because a few megabytes of empty GPUs
// would need a hundred times their size in memory.
type gpus []GPU

func (l *gpus) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return errors.New("the GPUs are not a list")
	}
	*l = gpus{}
	for d.More() {
		if len(*l) == maxGPUs {
			return fmt.Errorf("more than %d GPUs", maxGPUs)
		}
		var g struct {
			GPU
			MIG struct{} `json:"mig"` // hides the field of GPU
		}
		if err := d.Decode(&g); err != nil {
			return err
		}
		*l = append(*l, g.GPU)
	}
	return nil
}

// Contradiction returns an error for a page that cannot be true. Two GPUs with the same serial
// number are valid: they are two dies of one board.
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
