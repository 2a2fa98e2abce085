package dcgm

import "github.com/gpuledger/gpuledger/internal/gpu"

type mig struct{}

func (d *session) divide(values) error { return nil }

func (d *session) measure(*gpu.Report) {}
