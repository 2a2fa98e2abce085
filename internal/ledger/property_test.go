package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gpuledger/gpuledger/test/draws"
)

// FuzzBooks checks that the books balance, match their boards, never decrease, and follow the rules in rules_test.go.
func FuzzBooks(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		stream := make([]byte, 400)
		for i := range stream {
			stream[i] = byte(r.Uint32())
		}
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		m := newMachine(t)
		for len(stream) >= 4 {
			m.event(stream[0], stream[1], stream[2], stream[3])
			stream = stream[4:]
		}
	})
}

// The streams of events are longer than in the fuzzer's corpus.
func TestRandomBooks(t *testing.T) {
	for seed := range uint64(draws.Of(40, 100)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			m := newMachine(t)
			for range 400 {
				m.event(byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()))
			}
		})
	}
}
