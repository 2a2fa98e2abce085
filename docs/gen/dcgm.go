package main

import (
	"fmt"
	"strings"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/test/markdown"
)

// dcgmPage replaces only the table of fields in dcgm.md.
func dcgmPage(old string) ([]byte, error) {
	var table strings.Builder
	table.WriteString("| field | default | from NVML |\n|---|---|---|\n")
	for _, f := range collector.DCGMFields {
		enabled, origin := "", f.NVML
		if f.Default {
			enabled = "yes"
		}
		if origin == "" {
			origin = "no: " + f.Why
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", f.Name, enabled, origin)
	}
	page, err := markdown.Replace(old, "go generate", table.String())
	return []byte(page), err
}
