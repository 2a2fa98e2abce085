package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/metric"
	"github.com/gpuledger/gpuledger/test/markdown"
	"github.com/gpuledger/gpuledger/test/program"
)

const (
	// quiet is a time without scrapes. It includes several health reads, because the exporter reads health every ten
	// seconds.
	quiet = time.Minute
	// scrapes is the number of scrapes of the C program.
	scrapes = 200
)

// health compares three programs on quiet nodes with 8 GPUs: the exporter with health and profiling, the exporter
// without them, and a minimal C program with the same driver calls and series. All programs run at the same time, so
// other work on the machine affects them equally. The fake driver only reads a file, so its calls are faster than the
// calls of a real driver.
func health(ctx context.Context, out *strings.Builder) error {
	g, err := program.Open("cost")
	if err != nil {
		return err
	}
	return errors.Join(compareHealth(ctx, g, out), g.Close())
}

var (
	withHealth    = []string{"--collector.health=true"}
	withoutHealth = []string{"--collector.health=false", "--collector.profiling=false"}
)

func compareHealth(ctx context.Context, g *program.Group, out *strings.Builder) error {
	var nodes []*node
	for _, flags := range [][]string{withHealth, withoutHealth} {
		n, err := startNode(ctx, g, flags...)
		if err == nil {
			err = n.warmUp(ctx)
		}
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	c, err := startMinimal(ctx, g, nodes[0])
	if err != nil {
		return err
	}
	used, err := usedDuring(append(nodes, c), func() error { <-time.After(quiet); return nil })
	if err != nil {
		return err
	}
	t := markdown.NewTable("quiet node of 8 GPUs", "series", "bytes", "resident", "processor time per second", "× C")
	for i, n := range append(nodes, c) {
		page, err := n.get(ctx, "/metrics")
		if err != nil {
			return err
		}
		status, err := n.proc.NewStatus()
		if err != nil {
			return err
		}
		t.Add(n.name, thousands(seriesOf(page)), thousands(len(page)), mebibytes(status.VmRSS),
			milliseconds(used[i]/time.Duration(quiet.Seconds())), ratio(used[i], used[2]))
	}
	ticks, reads, err := c.driverTime(ctx)
	if err != nil {
		return err
	}
	scrape, err := c.scrape(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\nThe ticks of the C program take %s per second, including %s to read health and profiles. Its scrape takes %s.\n\n",
		t, milliseconds(ticks), milliseconds(reads), milliseconds(scrape))
	return nil
}

// healthScrapes measures how much health values add to the cost of a scrape.
func healthScrapes(ctx context.Context, out *strings.Builder) error {
	t := markdown.NewTable("scrape of 8 GPUs", "series", "processor time", "with gzip")
	for _, as := range []renderer{healthy, ours} {
		plain, err := measure(ctx, load{renderer: as, size: size{8, 0, 0}, scrapers: 1})
		if err != nil {
			return err
		}
		z, err := measure(ctx, load{renderer: as, size: size{8, 0, 0}, scrapers: 1, gzip: true})
		if err != nil {
			return err
		}
		t.Add(string(as), thousands(plain.series), milliseconds(plain.CPU), milliseconds(z.CPU))
	}
	out.WriteString(t.String())
	return nil
}

// addHealth adds all health values to the n-th snapshot. Byte counts, temperatures and utilisations differ between
// snapshots.
func addHealth(s *gpu.Snapshot, n int) {
	for i := range s.GPUs {
		r := s.GPUs[i].Reading
		for m, info := range gpu.HealthInfos {
			if info.Detail {
				continue
			}
			v := gpu.HealthValue{Metric: gpu.HealthMetric(m)}
			switch v.Metric {
			case gpu.PCIeBytes, gpu.NVLinkBytes, gpu.MemoryTemperature, gpu.MemoryUtilization, gpu.EncoderUtilization, gpu.DecoderUtilization:
				v.Value = float64(n*700_123 + i)
			}
			for _, labels := range labelsOf(info.Labels) {
				v.Labels = labels
				r.Health = append(r.Health, v)
			}
		}
	}
}

func labelsOf(names []string) [][]string {
	all := [][]string{nil}
	for _, name := range names {
		i := slices.IndexFunc(collector.Labels(), func(l metric.Label) bool { return l.Name == name })
		var longer [][]string
		for _, before := range all {
			for _, value := range collector.Labels()[i].Values {
				longer = append(longer, append(slices.Clone(before), value))
			}
		}
		all = longer
	}
	return all
}

type node struct {
	name, url string
	proc      procfs.Proc
	started   time.Time
}

func startNode(ctx context.Context, g *program.Group, flags ...string) (*node, error) {
	name := strings.Join(flags, " ")
	address, err := program.FreeAddress()
	if err != nil {
		return nil, err
	}
	exporter := g.Path("gpuledger-" + program.Port(address))
	if err := install("bin/gpuledger", exporter); err != nil {
		return nil, err
	}
	args := append([]string{"--scenario=idle", "--exporter=" + exporter, "--web.listen-address=" + address, "--"}, flags...)
	p, err := g.Start("simnode", "bin/simnode", args...)
	if err != nil {
		return nil, err
	}
	n := &node{name: name, url: "http://" + address}
	if err := p.Ready(ctx, n.url+"/-/ready"); err != nil {
		return nil, err
	}
	n.proc, err = procOf(exporter)
	return n, err
}

// warmUp scrapes a node until its programs use as much memory as they do later.
func (n *node) warmUp(ctx context.Context) error {
	for range scrapesFirst {
		<-time.After(scrapeInterval)
		if _, err := n.get(ctx, "/metrics"); err != nil {
			return err
		}
	}
	return nil
}

// startMinimal starts the C program with the simulated driver of an exporter and a copy of the exporter's page.
func startMinimal(ctx context.Context, g *program.Group, of *node) (*node, error) {
	path, copied := g.Path("minimal"), g.Path("page")
	page, err := of.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	environment, err := of.proc.Environ()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(environment, func(v string) bool { return strings.HasPrefix(v, "GPULEDGER_FAKE_NVML_STATE=") })
	library, err := filepath.Abs("bin/lib/libnvidia-ml.so.1")
	if err = errors.Join(err, install("bin/minimal", path), os.WriteFile(copied, page, 0o600)); err != nil || i < 0 {
		return nil, errors.Join(err, errors.New("start the C program"))
	}
	address, err := program.FreeAddress()
	if err != nil {
		return nil, err
	}
	// The C program cannot write the fake driver's log, like the exporter in its sandbox.
	p, err := g.Start("minimal", "/usr/bin/env", environment[i], "GPULEDGER_FAKE_NVML_LOG="+g.Path("missing", "log"),
		path, library, program.Port(address), copied)
	if err != nil {
		return nil, err
	}
	n := &node{name: "C program", url: "http://" + address, started: time.Now()}
	if err := p.Ready(ctx, n.url+"/usage"); err != nil {
		return nil, err
	}
	n.proc, err = procOf(path)
	return n, err
}

// driverTime returns the processor time per second that the C program uses for ticks. It also returns the part of this
// time for reads of health and profiles.
func (n *node) driverTime(ctx context.Context) (ticks, reads time.Duration, err error) {
	body, err := n.get(ctx, "/usage")
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscan(string(body), &ticks, &reads)
	seconds := time.Since(n.started).Seconds()
	return time.Duration(float64(ticks) / seconds), time.Duration(float64(reads) / seconds), err
}

// scrape returns the mean processor time for a scrape of the C program. This time hardly varies between scrapes.
func (n *node) scrape(ctx context.Context) (time.Duration, error) {
	used, err := usedDuring([]*node{n}, func() (err error) {
		for range scrapes {
			_, getErr := n.get(ctx, "/metrics")
			err = errors.Join(err, getErr)
		}
		return err
	})
	return used[0] / scrapes, err
}

func seriesOf(page []byte) (series int) {
	for line := range bytes.Lines(page) {
		if line[0] != '#' {
			series++
		}
	}
	return series
}

// usedDuring returns the processor time that each program uses during a call.
func usedDuring(nodes []*node, call func() error) ([]time.Duration, error) {
	all := make([]time.Duration, len(nodes))
	add := func(sign time.Duration) (err error) {
		for i, n := range nodes {
			var t unix.Timespec
			err = errors.Join(err, unix.ClockGettime(int32(^n.proc.PID<<3|2), &t)) // clock of the process, with the id that clock_getcpuclockid returns
			all[i] += sign * time.Duration(t.Nano())
		}
		return err
	}
	return all, errors.Join(add(-1), call(), add(1))
}

func (n *node) get(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", "identity")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

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
