package main

import (
	"bytes"
	"fmt"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const tablesHead = `# Tables of the archive

<!-- Written by go generate ./docs. Do not edit. -->

[archive.md](archive.md) describes how gpuledger-archive files them. Times are in UTC, energy is in millijoules, durations are in milliseconds.
`

func tablesPage() ([]byte, error) {
	types := map[table.Type]string{table.Text: "text", table.Int: "integer", table.Time: "time"}
	out := bytes.NewBufferString(tablesHead)
	for _, t := range table.All {
		fmt.Fprintf(out, "\n## %s\n\nEach row is %s.\n\n| column | type | |\n|---|---|---|\n", t.Name, t.Help)
		for _, c := range t.Columns {
			fmt.Fprintf(out, "| `%s` | %s | %s |\n", c.Name, types[c.Type], c.Help)
		}
	}
	return out.Bytes(), nil
}
