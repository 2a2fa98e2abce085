// Package table defines the tables of the archive, identical in every sink.
package table

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// Type is the type of a column.
type Type int

// The types of columns.
const (
	Text Type = iota // string, empty if unknown
	Int              // int64
	Time             // time.Time in UTC, zero if unknown
)

// Column is a column of a table.
type Column struct {
	Name string
	Type Type
	Help string
}

// Table is a table of the archive. The rows of a cluster and hour are replaced together.
type Table struct {
	Name    string
	Help    string
	Columns []Column
	// Key are the columns that identify a row.
	Key []string
	// Rows returns the rows of an hour, sorted. Values are strings, int64 and time.Time.
	Rows func(h *fold.Hour) [][]any
}

// column is a column with its value in a row of T.
type column[T any] struct {
	Column
	value func(h *fold.Hour, row *T) any
}

// build returns a table. Its first columns are cluster and hour, and so are those of its key.
func build[T any](name, help string, key []string, rows func(*fold.Hour) []T, columns ...column[T]) Table {
	columns = append([]column[T]{
		{Column{"cluster", Text, "external label of the Prometheus"}, func(h *fold.Hour, _ *T) any { return h.Cluster }},
		{Column{"hour", Time, "start of the hour"}, func(h *fold.Hour, _ *T) any { return h.Start }},
	}, columns...)
	t := Table{Name: name, Help: help, Key: append([]string{"cluster", "hour"}, key...)}
	for _, c := range columns {
		t.Columns = append(t.Columns, c.Column)
	}
	t.Rows = func(h *fold.Hour) (all [][]any) {
		source := rows(h)
		for i := range source {
			row := make([]any, len(columns))
			for j, c := range columns {
				row[j] = c.value(h, &source[i])
			}
			all = append(all, row)
		}
		return all
	}
	return t
}

func text[T any](name, help string, value func(*T) string) column[T] {
	return column[T]{Column{name, Text, help}, func(_ *fold.Hour, row *T) any { return value(row) }}
}

func integer[T any](name, help string, value func(*T) int64) column[T] {
	return column[T]{Column{name, Int, help}, func(_ *fold.Hour, row *T) any { return value(row) }}
}

func moment[T any](name, help string, value func(*T) time.Time) column[T] {
	return column[T]{Column{name, Time, help}, func(_ *fold.Hour, row *T) any { return value(row) }}
}

// GPUHours has a row for each GPU and hour.
var GPUHours = build("gpu_hours", "a GPU in an hour: its place, the energy of its board, its health", []string{"node", "uuid"},
	func(h *fold.Hour) []fold.GPU { return h.GPUs },
	text("node", "node", func(g *fold.GPU) string { return g.Node }),
	text("uuid", "UUID of the GPU", func(g *fold.GPU) string { return g.UUID }),
	text("serial", "serial number of the board, empty if unknown", func(g *fold.GPU) string { return g.Serial }),
	text("chassis_serial", "serial number of the chassis", func(g *fold.GPU) string { return g.ChassisSerial }),
	text("chassis_slot", "slot in the chassis", func(g *fold.GPU) string { return g.ChassisSlot }),
	text("tray_index", "tray in the chassis", func(g *fold.GPU) string { return g.TrayIndex }),
	text("pci_bus_id", "PCI address", func(g *fold.GPU) string { return g.PCIBusID }),
	text("model", "model of the GPU", func(g *fold.GPU) string { return g.Model }),
	text("system_uuid", "system UUID of the machine", func(g *fold.GPU) string { return g.SystemUUID }),
	moment("first_seen", "first scrape in the hour with the GPU present", func(g *fold.GPU) time.Time { return g.First }),
	moment("last_seen", "last scrape in the hour with the GPU present", func(g *fold.GPU) time.Time { return g.Last }),
	integer("scrapes", "scrapes in the hour with the GPU present", func(g *fold.GPU) int64 { return int64(g.Scrapes) }),
	integer("energy_mj", "energy of the board in millijoules", func(g *fold.GPU) int64 { return g.Energy }),
	text("energy_source", "source of the energy counter", func(g *fold.GPU) string { return g.EnergySource }),
	text("energy_scope", "scope of the energy counter", func(g *fold.GPU) string { return g.EnergyScope }),
	text("xids", "XID errors as code=count, separated by spaces", func(g *fold.GPU) string { return counts(g.XIDs) }),
	integer("losses", "times that the driver lost the GPU", func(g *fold.GPU) int64 { return g.Losses }),
	integer("energy_resets", "resets of the energy counter", func(g *fold.GPU) int64 { return g.EnergyResets }),
	integer("remapped_correctable", "memory rows remapped for correctable errors", func(g *fold.GPU) int64 { return g.RemappedCorrectable }),
	integer("remapped_uncorrectable", "memory rows remapped for uncorrectable errors", func(g *fold.GPU) int64 { return g.RemappedUncorrectable }),
)

// Charges has a row for each pod or reason, GPU and hour. Rows of a GPU and hour add up to its
// energy.
var Charges = build("charges", "the energy of a GPU in an hour by pod, or by the reason for which no pod is charged", []string{"node", "uuid", "namespace", "pod", "pod_uid", "reason"},
	func(h *fold.Hour) []fold.Charge { return h.Charges },
	text("node", "node", func(c *fold.Charge) string { return c.Node }),
	text("uuid", "UUID of the GPU", func(c *fold.Charge) string { return c.UUID }),
	text("serial", "serial number of the board, empty if unknown", func(c *fold.Charge) string { return c.Serial }),
	text("namespace", "namespace of the pod, empty for a reason", func(c *fold.Charge) string { return c.Namespace }),
	text("pod", "name of the pod", func(c *fold.Charge) string { return c.Pod }),
	text("pod_uid", "UID of the pod", func(c *fold.Charge) string { return c.PodUID }),
	text("reason", "reason of unattributed energy, empty for a pod", func(c *fold.Charge) string { return c.Reason }),
	integer("energy_mj", "energy in millijoules", func(c *fold.Charge) int64 { return c.Energy }),
	integer("exclusive_mj", "measured part of the energy", func(c *fold.Charge) int64 { return c.Exclusive }),
	integer("idle_mj", "idle part of the energy", func(c *fold.Charge) int64 { return c.Idle }),
	integer("held_ms", "time that the pod held the GPU, in milliseconds, summed over its containers and MIG instances", func(c *fold.Charge) int64 { return c.Held }),
	integer("gpu_ms", "the same weighted by the share of the GPU", func(c *fold.Charge) int64 { return c.GPUTime }),
	integer("active_ms", "time that the pod worked on the GPU", func(c *fold.Charge) int64 { return c.Active }),
)

// Data are the tables with the data of an hour.
var Data = []Table{GPUHours, Charges}

// summary is the row of an hour in the manifest.
type summary struct {
	gpus, charges, energy, scrapes int64
	digest                         string
}

// Hours is the manifest: a row for each hour whose data is filed completely.
var Hours = build("hours", "an hour of a cluster whose rows are filed completely", nil,
	func(h *fold.Hour) []summary { return []summary{summarize(h)} },
	integer("gpus", "rows in gpu_hours", func(s *summary) int64 { return s.gpus }),
	integer("charges", "rows in charges", func(s *summary) int64 { return s.charges }),
	integer("energy_mj", "energy of all boards in millijoules", func(s *summary) int64 { return s.energy }),
	integer("scrapes", "scrapes of all GPUs", func(s *summary) int64 { return s.scrapes }),
	text("digest", "SHA-256 of the rows", func(s *summary) string { return s.digest }),
)

func summarize(h *fold.Hour) summary {
	s := summary{gpus: int64(len(h.GPUs)), charges: int64(len(h.Charges)), digest: Digest(h)}
	for i := range h.GPUs {
		s.energy += h.GPUs[i].Energy
		s.scrapes += int64(h.GPUs[i].Scrapes)
	}
	return s
}

// Digest returns the SHA-256 of the rows of an hour. It depends on the data only, not on a sink.
func Digest(h *fold.Hour) string {
	sum := sha256.New()
	for _, t := range Data {
		for _, row := range t.Rows(h) {
			for _, value := range row {
				_, _ = io.WriteString(sum, strconv.Quote(Format(value)))
			}
			_, _ = sum.Write([]byte{'\n'})
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Format returns a value as text: times in RFC 3339 with milliseconds, unknown ones empty.
func Format(value any) string {
	if at, ok := value.(time.Time); ok {
		if at.IsZero() {
			return ""
		}
		return at.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return fmt.Sprint(value)
}

func counts(by map[string]int64) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(by)) {
		all = append(all, key+"="+strconv.FormatInt(by[key], 10))
	}
	return strings.Join(all, " ")
}
