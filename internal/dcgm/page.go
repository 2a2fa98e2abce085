package dcgm

import "github.com/gpuledger/gpuledger/internal/gpu"

// Field is one field of the field page.
type Field struct{}

type page struct{}

func (d *session) readPage() (*gpu.FieldPage, error) { return nil, nil }
