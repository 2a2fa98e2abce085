package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// No machine has more GPUs.
const maxGPUs = 64

// Decode reads a page. The caller must limit the length of r.
func Decode(r io.Reader) (Page, error) {
	var p Page
	if err := json.NewDecoder(r).Decode(&p); err != nil {
		return Page{}, fmt.Errorf("decode health: %w", err)
	}
	switch {
	case p.Version != Version:
		return Page{}, fmt.Errorf("decode health: unknown version %d, must be %d", p.Version, Version)
	case p.Advice == "":
		return Page{}, errors.New("decode health: advice is missing")
	case len(p.GPUs) > maxGPUs:
		return Page{}, fmt.Errorf("decode health: %d GPUs, must be at most %d", len(p.GPUs), maxGPUs)
	}
	return p, nil
}
