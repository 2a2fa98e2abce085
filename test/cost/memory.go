package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/markdown"
	"github.com/gpuledger/gpuledger/test/program"
)

// The programs must be in bin.
func memory(ctx context.Context, out *strings.Builder) error {
	t := markdown.NewTable("node of 8 GPUs", "resident", "program file and libraries", "anonymous", "Go heap in use")
	for _, n := range []struct {
		name string
		args []string
	}{
		{"quiet", []string{"--scenario=idle"}},
		{"with pods on 7 of them", []string{"--scenario=dgx-h100"}},
		{"quiet, with a DCGM host engine", []string{"--scenario=idle", "--dcgm"}},
	} {
		r, err := resident(ctx, n.args)
		if err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		t.Add(n.name, mebibytes(r.all), mebibytes(r.file), mebibytes(r.anonymous), mebibytes(r.heap))
	}
	out.WriteString(t.String())
	return nil
}

// residence contains resident memory in bytes.
type residence struct{ all, file, anonymous, heap uint64 }

const (
	// Before the measurement, both pages are scraped for half a minute: scrapesFirst times, at this interval.
	scrapesFirst   = 15
	scrapeInterval = 2 * time.Second
)

func resident(ctx context.Context, args []string) (r residence, err error) {
	g, err := program.Open("cost")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	exporter := g.Path("gpuledger")
	if err := install("bin/gpuledger", exporter); err != nil {
		return r, err
	}
	address, err := program.FreeAddress()
	if err != nil {
		return r, err
	}
	p, err := g.Start("simnode", "bin/simnode", append(args, "--exporter="+exporter, "--web.listen-address="+address)...)
	if err != nil {
		return r, err
	}
	if err := p.Ready(ctx, "http://"+address+"/-/ready"); err != nil {
		return r, err
	}
	var heap float64
	for range scrapesFirst {
		<-time.After(scrapeInterval)
		for _, path := range []string{"/metrics", "/metrics/record"} {
			families, err := exposition.Scrape(ctx, "http://"+address+path)
			if err != nil {
				return r, err
			}
			if f := families["go_memstats_heap_inuse_bytes"]; f != nil {
				heap = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
	}
	proc, err := procOf(exporter)
	if err != nil {
		return r, err
	}
	status, err := proc.NewStatus()
	return residence{status.VmRSS, status.RssFile, status.RssAnon, uint64(heap)}, err
}

// install copies a program as a container runtime unpacks it. The kernel maps the pages of a file in the units in which
// they were written. Without the copy, it would map the whole program as one unit.
func install(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("%w (make exporter simnode builds it)", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, 32<<10))
	return errors.Join(err, out.Close())
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
