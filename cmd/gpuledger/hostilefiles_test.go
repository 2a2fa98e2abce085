//go:build realtime

package main_test

import (
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// docs/security.md states this peak memory for hostile inputs, in bytes.
const hostilePeak = 40 << 20

// Files of Docker and Podman must not make the exporter exceed the memory limit of its container. The files in this
// test reach or exceed the maximum size or the maximum number of elements.
func TestHostileContainerFiles(t *testing.T) {
	const file, list = 1 << 20, 4 << 20 // largest accepted sizes of a file and of Podman's list
	many := func(size int, before, element, after string) string {
		n := (size - len(before) - len(after)) / (len(element) + 1)
		return before + strings.Repeat(element+",", n-1) + element + after
	}
	const config, host, rows = "/config.v2.json", "/hostconfig.json", "/containers.json"
	named := func(manager, unit string) func(page) bool {
		return func(p page) bool {
			return p.Sum("gpuledger_unit_energy_joules_total", map[string]string{"manager": manager, "unit": unit}) > 0
		}
	}
	docker, podman := named("docker", "vision-train-1"), named("podman", "labeler")
	oversized := func(p page) bool {
		return p.Sum("gpuledger_stage_oversized_total", map[string]string{"stage": "units"}) >= 3
	}
	tests := []struct {
		name, file string
		content    func(honest string) string
		want       func(page) bool
	}{
		{"device requests", host, func(string) string { return many(file, `{"DeviceRequests":[`, `{}`, `]}`) }, docker},
		{"ids of devices", host, func(string) string { return many(file, `{"DeviceRequests":[{"DeviceIDs":[`, `""`, `]}]}`) }, docker},
		{"unknown field", host, func(string) string { return many(file, `{"a":[`, `{}`, `]}`) }, docker},
		{"one text", host, func(string) string { return `{"a":"` + strings.Repeat("a", file-10) + `"}` }, docker},
		{"too large", host, func(string) string { return many(8<<20, `{"DeviceRequests":[`, `{}`, `]}`) }, docker},
		{"variables", config, func(honest string) string {
			return strings.Replace(honest, `"Env":[`, many(file-len(honest), `"Env":[`, `""`, `,`), 1)
		}, docker},
		{"rows", rows, func(honest string) string { return many(list-len(honest), `[`, `{}`, `,`) + honest[1:] }, podman},
		{"rows with names", rows, func(honest string) string {
			return many(list-len(honest), `[`, `{"id":"x","names":["a"]}`, `,`) + honest[1:]
		}, podman},
		{"one text of a row", rows, func(honest string) string {
			return `[{"a":"` + strings.Repeat("a", list-len(honest)-20) + `"},` + honest[1:]
		}, podman},
		{"too many rows", rows, func(string) string { return many(8<<20, `[`, `{}`, `]`) }, oversized},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemoryGroup(t)
			n := openNode(t, withFile(t, tt.file, tt.content))
			e := run(t, withLimits(n.Env()), onNode(n)...)
			e.scrapeUntil("the files were read", tt.want)
			checkBalance(t, e.scrapeUntil("every GPU was charged", charged(10_000)))
			e.ends()
			if n := m.killed(); n > 0 {
				t.Errorf("the exporter was killed %d times at the memory limit", n)
			}
			t.Logf("peak of %d MiB", m.peak()>>20)
			if m.peak() > hostilePeak {
				t.Errorf("peak of %d KiB, want at most %d MiB", m.peak()>>10, hostilePeak>>20)
			}
		})
	}
}

func withFile(t *testing.T, suffix string, content func(honest string) string) simnode.Scenario {
	t.Helper()
	sc, err := simnode.Lookup("workstation")
	if err != nil {
		t.Fatal(err)
	}
	replaced := 0
	for _, u := range sc.Units {
		for name, honest := range u.Files {
			if strings.HasSuffix(name, suffix) {
				u.Files[name] = content(honest)
				replaced++
			}
		}
	}
	if replaced != 1 {
		t.Fatalf("%d files have a name that ends in %s, want 1", replaced, suffix)
	}
	return sc
}
