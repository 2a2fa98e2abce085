package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const tablesHead = `# Tables of the archive

<!-- Written by go generate ./docs. Do not edit. -->

[archive.md](archive.md) describes how gpuledger-archive files them. Times are in UTC, energy is in millijoules, durations are in milliseconds.
`

// tablesTail has @ for backquotes.
const tablesTail = `
## Times

The [documented questions](archive.md#ten-questions) on 10 million charges of 400 GPUs and 10,000 hours in PostgreSQL 15 with its default settings, in seconds,
on two processors that other programs used, too. The column "before" shows the times without sums of days. @make e2e-archive@ checks that the plans read these
sums, or partitions of the month of the question. @make bench-tables@ printed this, and fails above two seconds.

| question | before | now | reads |
|---|---|---|---|
| Where was this board? | 33.7 | 0.81 | gpu_days |
| Who used it when it failed? | 0.18 | 0.03 | index of a partition of charges |
| What happened to the boards? | 84.5 | 1.25 | gpu_days |
| kWh and GPU hours of each team in November | 4.0 | 0.07 | index of days |
| Do they add up to the boards? | 25.5 | 1.35 | days, hours |
| Which percentage of the time that it holds GPUs does a team use them? | 32.7 | 1.62 | days |
| Which boards did this workload use? | 15.0 | 0.11 | days |
| Which boards had XID 79? | 1.3 | 0.12 | a partition of gpu_hours |
| Which boards were in more than one machine? | 15.6 | 1.03 | gpu_days |
| Which hours are missing? | 0.01 | 0.02 | hours |

The first start with these charges took 78 seconds to add up the sums. In a larger archive, @set jit = off@: PostgreSQL may need longer to compile a
plan than to run it.
`

func tablesPage() ([]byte, error) {
	types := map[table.Type]string{table.Text: "text", table.Int: "integer", table.OptionalInt: "integer or null", table.Time: "time", table.Date: "date"}
	out := bytes.NewBufferString(tablesHead)
	for _, t := range append(slices.Concat(table.All, table.Summaries), table.Chain) {
		fmt.Fprintf(out, "\n## %s\n\nEach row is %s.\n\n| column | type | |\n|---|---|---|\n", t.Name, t.Help)
		for _, c := range t.Columns {
			if types[c.Type] == "" {
				return nil, fmt.Errorf("the column %s of %s has no type", c.Name, t.Name)
			}
			fmt.Fprintf(out, "| `%s` | %s | %s |\n", c.Name, types[c.Type], c.Help)
		}
	}
	out.WriteString(strings.ReplaceAll(tablesTail, "@", "`"))
	return out.Bytes(), nil
}
