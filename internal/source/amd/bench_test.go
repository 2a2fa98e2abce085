package amd_test

import (
	"fmt"
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

func BenchmarkRead(b *testing.B) {
	d := newTree(b)
	var n gputest.Node
	for i := range 8 {
		g := gputest.Full(i)
		asAMD(&g)
		for k := range g.Reading.Contexts {
			g.Reading.Contexts[k].PID = uint32(1000 + 10*i + k)
		}
		n.GPUs = append(n.GPUs, g)
	}
	d.change(n)
	s := d.open(gputest.NewClock().Now)
	if r, err := s.Read(b.Context()); err != nil || len(r.Readings) != 8 || len(r.Readings[7].Contexts) != 2 {
		b.Fatal(fmt.Errorf("%d readings: %w", len(r.Readings), err))
	}
	for b.Loop() {
		if _, err := s.Read(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
