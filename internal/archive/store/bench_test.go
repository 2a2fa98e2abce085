package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// BenchmarkDecode decodes six hours of 2,000 counters that change at every second sample.
func BenchmarkDecode(b *testing.B) {
	var text strings.Builder
	text.WriteString(`{"status":"success","data":{"resultType":"matrix","result":[`)
	for n := range 2000 {
		fmt.Fprintf(&text, `%.*s{"metric":{"__name__":"gpuledger_allocation_energy_joules_total","UUID":"GPU-%08x-1234","node":"node-%d","serial":"S%d","namespace":"team-%d","pod":"train-%d","pod_uid":"%08x-aaaa","cluster":"east","job":"gpuledger-record","instance":"10.0.0.%d:9840"},"values":[`,
			min(n, 1), ",", n/8, n/64, n/8, n%10, n, n, n/64)
		for i := range 360 {
			fmt.Fprintf(&text, `%.*s[%d.%03d,"%d.%03d"]`, min(i, 1), ",", 1_790_000_000+60*i, n%1000, 1_000_000+i/2*700, i/2%1000)
		}
		text.WriteString("]}")
	}
	text.WriteString("]}}")
	body := text.String()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if err := newDecoder(newBudget()).decode(strings.NewReader(body), func(s fold.Series) { n += len(s.Samples) }); err != nil || n != 2000*360 {
			b.Fatalf("%d samples, error %v", n, err)
		}
	}
}
