package app_test

import (
	"strings"

	"github.com/gpuledger/gpuledger/internal/status"
	"github.com/gpuledger/gpuledger/test/golden"
)

func (b *bench) checkStatus(name string) {
	b.t.Helper()
	var text strings.Builder
	if err := status.Write(&text, new(status.New(b.node.Sampler.Latest(), b.now))); err != nil {
		b.t.Fatal(err)
	}
	golden.Check(b.t, name+".status.txt", []byte(text.String()))
}
