// Cost measures the exporter's cost of a page and of a tick. It compares the page with a static page of equal content,
// and with a plain registry that contains the same series. It prints Markdown tables, or writes them between two
// markers of a file. The argument only=SECTION selects a section.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/test/markdown"
)

const processors = 2

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

var sections = []struct {
	name    string
	measure func(context.Context, *strings.Builder) error
}{
	{"memory", memory}, {"health", health}, {"healthtick", healthTick}, {"healthscrapes", healthScrapes}, {"pages", pages}, {"growth", growth}, {"ticks", ticksOf},
}

func writes(args []string) bool { return len(args) > 0 && !strings.HasPrefix(args[0], "only=") }

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "serve" {
		return serveOne(args[1:])
	}
	var out strings.Builder
	for _, section := range sections {
		if len(args) > 0 && strings.HasPrefix(args[0], "only=") && args[0] != "only="+section.name {
			continue
		}
		var part strings.Builder
		if err := section.measure(ctx, &part); err != nil {
			return err
		}
		if !writes(args) {
			fmt.Println(part.String()) // printed immediately, because all sections together take minutes
		}
		fmt.Fprintln(&out, part.String())
	}
	if !writes(args) {
		return nil
	}
	return markdown.Put(args[0], "make bench", "\n"+out.String())
}

// Compressed responses are not compared with the static page, because the static page is compressed in advance.
func pages(ctx context.Context, out *strings.Builder) error {
	t := markdown.NewTable("page", "scrapers", "gzip", "processor time", "× static", "× plain", "allocated", "allocations", "median", "p99")
	for _, s := range []size{{8, 2, 11}, {8, 10, 10}} {
		var rows []row
		for _, scrapers := range []int{1, 16} {
			for _, l := range []load{{static, s, scrapers, false}, {plain, s, scrapers, false}, {constants, s, scrapers, false}, {ours, s, scrapers, false}, {ours, s, scrapers, true}} {
				r, err := measure(ctx, l)
				if err != nil {
					return err
				}
				rows = append(rows, row{result: r})
			}
			compare(rows[len(rows)-5:])
		}
		t.Add(fmt.Sprintf("**%s: %s series**", s, thousands(rows[3].series)))
		for _, r := range rows {
			t.Add(r.cells()...)
		}
	}
	out.WriteString(t.String())
	return nil
}

// static and plain are the costs of the same scrapes of a static page and of a plain registry. They are zero without a
// comparison.
type row struct {
	result
	static, plain time.Duration
}

func compare(rows []row) {
	for i := range rows {
		for _, other := range rows {
			switch {
			case other.gzip != rows[i].gzip:
			case other.renderer == static:
				rows[i].static = other.CPU
			case other.renderer == plain:
				rows[i].plain = other.CPU
			}
		}
	}
}

func (r row) cells() []string {
	return []string{
		string(r.renderer), fmt.Sprint(r.scrapers), yes(r.gzip), milliseconds(r.CPU),
		ratio(r.CPU, r.static), ratio(r.CPU, r.plain),
		kilobytes(r.Bytes), thousands(int(r.Allocations)), milliseconds(r.p50), milliseconds(r.p99),
	}
}

func growth(ctx context.Context, out *strings.Builder) error {
	t := markdown.NewTable("node", "series", "processor time", "per series", "allocated per series", "bytes per series", "with gzip")
	for _, s := range []size{{8, 0, 0}, {8, 1, 0}, {8, 2, 11}, {8, 10, 10}, {16, 14, 9}} {
		r, err := measure(ctx, load{renderer: ours, size: s, scrapers: 1})
		if err != nil {
			return err
		}
		z, err := measure(ctx, load{renderer: ours, size: s, scrapers: 1, gzip: true})
		if err != nil {
			return err
		}
		n := r.series
		t.Add(s.String(), thousands(n), milliseconds(r.CPU), fmt.Sprintf("%.2f µs", float64(r.CPU.Nanoseconds())/1000/float64(n)),
			fmt.Sprintf("%d B", int(r.Bytes)/n), fmt.Sprint(r.bytes/n), fmt.Sprintf("%.0f", float64(z.bytes)/float64(n)))
	}
	out.WriteString(t.String())
	return nil
}

func ticksOf(ctx context.Context, out *strings.Builder) error {
	t := markdown.NewTable("node", "processor time of a tick", "allocated", "allocations")
	for _, s := range []size{{8, 1, 1}, {8, 1, 8}, {8, 8, 1}} {
		u, err := tick(ctx, s)
		if err != nil {
			return fmt.Errorf("tick with %s: %w", s, err)
		}
		t.Add(s.String(), milliseconds(u.CPU), kilobytes(u.Bytes), thousands(int(u.Allocations)))
	}
	out.WriteString(t.String())
	return nil
}
