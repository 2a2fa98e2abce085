// History writes the record of a fleet as Prometheus blocks, for measurements. Every GPU is scraped
// every minute, each node runs one pod a day on all its GPUs, and one board in a hundred swaps
// places with another. The blocks have the final size of blocks in a Prometheus with this
// retention: a tenth of the retention.
//
// Placements, pods and results of rules cover the whole time. Counters cover the whole fleet in the
// last three days, and one node in ten before that: queries that read them for more than a day are
// about a board or a chassis.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/tsdb/tombstones"
)

const (
	day         = 24 * 60 // minutes
	blockDays   = 9
	perChunk    = 120 // samples, as Prometheus has it
	gpusPerNode = 8
)

func main() {
	out := flag.String("out", "", "new `directory` for the blocks")
	gpus := flag.Int("gpus", 8000, "`number` of GPUs")
	days := flag.Int("days", 90, "`number` of days")
	counters := flag.Int("counters", 3, "`number` of last days with counters of the whole fleet")
	curves := flag.Int("curves", 64, "`number` of different curves of counters")
	flag.IntVar(&clusters, "clusters", clusters, "`number` of clusters")
	flag.Parse()
	f := fleet{gpus: *gpus, days: *days, counters: *counters, curves: *curves, end: time.Now().Truncate(24 * time.Hour)}
	var samples uint64
	sizes := make(map[string]size)
	for first := 0; first < f.days; first += blockDays {
		n, err := f.block(*out, first, min(first+blockDays, f.days), sizes)
		if err != nil {
			fmt.Fprintln(os.Stderr, "history:", err)
			os.Exit(1)
		}
		samples += n
	}
	fmt.Printf("%d GPUs, %d days until %s: %d samples\n", f.gpus, f.days, f.end.UTC().Format(time.RFC3339), samples)
	fmt.Printf("\n| series | samples | bytes per sample |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		fmt.Printf("| `%s` | %d | %.2f |\n", name, sizes[name].samples, float64(sizes[name].bytes)/float64(sizes[name].samples))
	}
}

// size is the size of a metric's chunks.
type size struct{ samples, bytes uint64 }

// fleet is the simulated fleet.
type fleet struct {
	gpus, days int
	counters   int // last days with counters of the whole fleet
	curves     int
	end        time.Time // midnight, UTC
}

// at returns the time in milliseconds of a minute since the start.
func (f *fleet) at(minute int) int64 {
	return f.end.Add(time.Duration(minute-f.days*day) * time.Minute).UnixMilli()
}

// block is a block that is being written.
type block struct {
	*fleet
	first, last int                     // days, excluding the last one
	shared      map[shape][]chunks.Meta // data that series of a shape have in common
	series      []series
	samples     uint64
	sizes       map[string]size // by metric
}

// series is a series with its chunks.
type series struct {
	labels labels.Labels
	chunks []chunks.Meta
}

// shape identifies series with the same samples.
type shape struct {
	kind            string
	curve           int
	from, to, every int // minutes, excluding the last one
}

// block writes the block of consecutive days and returns the number of its samples.
func (f *fleet) block(out string, first, last int, sizes map[string]size) (samples uint64, err error) {
	id := ulid.MustNew(uint64(f.at(first*day)), rand.NewChaCha8([32]byte{byte(first)}))
	dir := filepath.Join(out, id.String())
	b := &block{fleet: f, first: first, last: last, shared: make(map[shape][]chunks.Meta), sizes: sizes}
	for gpu := range f.gpus {
		b.addGPU(gpu)
	}
	for node := range f.gpus / gpusPerNode {
		b.addPods(node)
	}
	b.addRules()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	if err := b.write(dir); err != nil {
		return 0, err
	}
	if _, err := tombstones.WriteFile(slog.Default(), dir, tombstones.NewMemTombstones()); err != nil {
		return 0, err
	}
	return b.samples, b.writeMeta(dir, id)
}

// add adds a series with samples of a shape.
func (b *block) add(name string, s shape, pairs ...string) {
	s.from, s.to = max(s.from, b.first*day), min(s.to, b.last*day)
	if s.from >= s.to {
		return
	}
	metas, ok := b.shared[s]
	if !ok {
		metas = b.encode(s)
		b.shared[s] = metas
	}
	b.samples += uint64((s.to - s.from) / s.every)
	written := b.sizes[name]
	for _, m := range metas {
		written.samples += uint64(m.Chunk.NumSamples())
		written.bytes += uint64(len(m.Chunk.Bytes()))
	}
	b.sizes[name] = written
	b.series = append(b.series, series{labels.FromStrings(append([]string{labels.MetricName, name}, pairs...)...), metas})
}

func (b *block) encode(s shape) []chunks.Meta {
	var metas []chunks.Meta
	next := s.values()
	for from := s.from; from < s.to; from += perChunk * s.every {
		chunk := chunkenc.NewXORChunk()
		app, err := chunk.Appender()
		check(err)
		to := min(from+perChunk*s.every, s.to)
		for minute := from; minute < to; minute += s.every {
			app.Append(0, b.at(minute), next(minute))
		}
		metas = append(metas, chunks.Meta{Chunk: chunk, MinTime: b.at(from), MaxTime: b.at(to - s.every)})
	}
	return metas
}

// values returns a function that returns the value of a shape at each of its minutes in turn.
func (s shape) values() func(minute int) float64 {
	random := rand.New(rand.NewPCG(uint64(s.curve), uint64(s.from)))
	switch s.kind {
	case "one":
		return func(int) float64 { return 1 }
	case "board", "joules": // of a GPU of some 400 to 700 W, in whole millijoules; a board's begin somewhere
		// A board and its pod have the same curve, and so the same increase in a minute.
		millijoules := int64(0)
		if s.kind == "board" {
			millijoules = int64(s.from) * 33_000_000
		}
		return func(minute int) float64 {
			random := rand.New(rand.NewPCG(uint64(s.curve), uint64(minute)))
			millijoules += 60_000*(400+random.Int64N(300)) + random.Int64N(1000)
			return float64(millijoules) / 1000
		}
	case "seconds":
		seconds := 0.0
		return func(int) float64 {
			seconds += 60 + (random.Float64()-0.5)/1000
			return seconds
		}
	default: // "hour": the joules of the last full hour, which stand for an hour
		value := 0.0
		return func(minute int) float64 {
			if value == 0 || minute%60 == 0 {
				value = float64(random.Int64N(1e12)) / 1000
			}
			return value
		}
	}
}

func (b *block) write(dir string) error {
	chunkw, err := chunks.NewWriter(filepath.Join(dir, "chunks"))
	if err != nil {
		return err
	}
	indexw, err := index.NewWriter(context.Background(), filepath.Join(dir, "index"))
	if err != nil {
		return err
	}
	for _, s := range b.symbols() {
		if err := indexw.AddSymbol(s); err != nil {
			return err
		}
	}
	slices.SortFunc(b.series, func(a, b series) int { return labels.Compare(a.labels, b.labels) })
	for i, s := range b.series {
		metas := slices.Clone(s.chunks)
		if err := chunkw.WriteChunks(metas...); err != nil {
			return err
		}
		if err := indexw.AddSeries(storage.SeriesRef(i), s.labels, metas...); err != nil {
			return err
		}
	}
	return errors.Join(chunkw.Close(), indexw.Close())
}

// symbols returns all names and values of labels.
func (b *block) symbols() []string {
	all := make(map[string]bool)
	for _, s := range b.series {
		s.labels.Range(func(l labels.Label) { all[l.Name], all[l.Value] = true, true })
	}
	return slices.Sorted(maps.Keys(all))
}

func (b *block) writeMeta(dir string, id ulid.ULID) error {
	meta, err := json.Marshal(tsdb.BlockMeta{
		ULID: id, MinTime: b.at(b.first * day), MaxTime: b.at(b.last * day), Version: 1,
		Stats:      tsdb.BlockStats{NumSamples: b.samples, NumSeries: uint64(len(b.series))},
		Compaction: tsdb.BlockMetaCompaction{Level: 4, Sources: []ulid.ULID{id}},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "meta.json"), meta, 0o644)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
