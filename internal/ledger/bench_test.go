package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/ledger"
)

func BenchmarkSettle(b *testing.B) {
	all := slices.Collect(stream(5000))
	for _, e := range []ledger.Explain{{}, {Period: time.Hour, Bytes: 1 << 20}} {
		b.Run(fmt.Sprint(e.Period), func(b *testing.B) {
			l, i := explained(e), 0
			for b.Loop() {
				o := all[i%len(all)]
				if i++; i%len(all) == 0 {
					l = explained(e)
				}
				l.Observe(o)
				l.Settle(o.At, unresolved)
				l.State()
			}
		})
	}
}
