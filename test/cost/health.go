package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/gpuledger/gpuledger/test/markdown"
	"github.com/gpuledger/gpuledger/test/program"
)

const (
	// quiet is the time in which the exporter is not scraped. It includes health reads, which are ten seconds apart.
	quiet = 30 * time.Second
	// healthScrapes is the number of scrapes of a page.
	healthScrapes = 200
)

// healthCost is the cost of a node of 8 GPUs.
type healthCost struct {
	series, bytes  int
	resident       uint64
	second, scrape time.Duration // processor time
}

// health compares quiet nodes of 8 GPUs with and without the values of health. Both run at the same time, so that other work on
// the machine affects both. The fake driver reads a file, so its time is not the time of a real driver.
func health(ctx context.Context, out *strings.Builder) error {
	t := markdown.NewTable("quiet node of 8 GPUs", "series", "bytes", "resident", "processor time per second", "of a scrape")
	names := []string{"with health", "with --collector.health=false"}
	g, err := program.Open("cost")
	if err != nil {
		return err
	}
	var nodes [2]*node
	for i, flags := range [][]string{nil, {"--", "--collector.health=false"}} {
		if nodes[i], err = startNode(ctx, g, i, flags); err != nil {
			return errors.Join(err, g.Close())
		}
	}
	for i, n := range nodes {
		c, err := n.cost(ctx, nodes)
		if err != nil {
			return errors.Join(err, g.Close())
		}
		t.Add(names[i], thousands(c.series), thousands(c.bytes), mebibytes(c.resident), milliseconds(c.second), milliseconds(c.scrape))
	}
	out.WriteString(t.String())
	return g.Close()
}

// node is a running exporter on a simulated node.
type node struct {
	url  string
	proc procfs.Proc
	// before and after are the processor times around the quiet time, in seconds.
	before, after float64
}

// startNode starts a quiet node, and scrapes it until its memory is used.
func startNode(ctx context.Context, g *program.Group, i int, flags []string) (*node, error) {
	exporter := g.Path(fmt.Sprintf("gpuledger-%d", i))
	if err := install("bin/gpuledger", exporter); err != nil {
		return nil, err
	}
	address, err := program.FreeAddress()
	if err != nil {
		return nil, err
	}
	args := append([]string{"--scenario=idle", "--exporter=" + exporter, "--web.listen-address=" + address}, flags...)
	p, err := g.Start(fmt.Sprintf("simnode-%d", i), "bin/simnode", args...)
	if err != nil {
		return nil, err
	}
	n := &node{url: "http://" + address + "/metrics"}
	if err := p.Ready(ctx, "http://"+address+"/-/ready"); err != nil {
		return nil, err
	}
	n.proc, err = procOf(exporter)
	for range scrapesFirst {
		if err == nil {
			<-time.After(scrapeInterval)
			_, err = n.get(ctx)
		}
	}
	return n, err
}

// cost measures a node. The first call measures the quiet time of all nodes.
func (n *node) cost(ctx context.Context, all [2]*node) (c healthCost, err error) {
	if n.after == 0 {
		if err := wait(all); err != nil {
			return c, err
		}
	}
	began, err := n.used()
	if err != nil {
		return c, err
	}
	from := time.Now()
	var page []byte
	for range healthScrapes {
		if page, err = n.get(ctx); err != nil {
			return c, err
		}
	}
	idle := (n.after - n.before) / quiet.Seconds()
	ended, err := n.used()
	if err != nil {
		return c, err
	}
	c.second = seconds(idle)
	c.scrape = seconds((ended - began - idle*time.Since(from).Seconds()) / healthScrapes)
	c.bytes = len(page)
	for line := range bytes.Lines(page) {
		if line[0] != '#' {
			c.series++
		}
	}
	status, err := n.proc.NewStatus()
	c.resident = status.VmRSS
	return c, err
}

// wait measures the processor time of the nodes in the quiet time.
func wait(all [2]*node) error {
	var errs []error
	read := func(to func(*node) *float64) {
		for _, n := range all {
			used, err := n.used()
			*to(n) = used
			errs = append(errs, err)
		}
	}
	read(func(n *node) *float64 { return &n.before })
	<-time.After(quiet)
	read(func(n *node) *float64 { return &n.after })
	return errors.Join(errs...)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// used returns the processor time of the exporter in seconds, in steps of 10 ms.
func (n *node) used() (float64, error) {
	stat, err := n.proc.Stat()
	return stat.CPUTime(), err
}

func (n *node) get(ctx context.Context) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// procOf returns the process that runs a program.
func procOf(path string) (procfs.Proc, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return procfs.Proc{}, err
	}
	for _, p := range all {
		if exe, err := p.Executable(); err == nil && exe == filepath.Clean(path) {
			return p, nil
		}
	}
	return procfs.Proc{}, fmt.Errorf("%s is not running", path)
}
