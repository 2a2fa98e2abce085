// Command hardware compares the exporter's assumptions about GPUs with a real GPU. It runs the released exporter and
// loads of known size, and writes a page of results. It reads values that the exporter does not serve from the driver.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/common/version"

	"github.com/gpuledger/gpuledger/test/hardware/driver"
)

type options struct {
	index          int
	exporter, load string
	nvml, cuda     string
	out            string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hardware:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	self, err := os.Executable()
	if err != nil {
		return o, err
	}
	beside := func(name string) string { return filepath.Join(filepath.Dir(self), name) }
	fs := flag.NewFlagSet("hardware", flag.ContinueOnError)
	fs.IntVar(&o.index, "gpu", 0, "`index` of the GPU, which nothing else should use")
	fs.StringVar(&o.exporter, "exporter", beside("gpuledger"), "`path` of the exporter")
	fs.StringVar(&o.load, "load", beside("load"), "`path` of the load generator")
	fs.StringVar(&o.nvml, "nvml.library", "", "`path` of libnvidia-ml.so.1; by default, the dynamic loader finds it")
	fs.StringVar(&o.cuda, "cuda.library", "libcuda.so.1", "`path` of libcuda.so.1")
	fs.StringVar(&o.out, "out", "hardware-results.md", "`file` for the page of results")
	return o, fs.Parse(args)
}

func run(ctx context.Context, args []string, log io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	gpu, err := driver.Open(o.nvml, o.index)
	if err != nil {
		return fmt.Errorf("open GPU %d: %w", o.index, err)
	}
	b, err := open(ctx, o, gpu)
	if err != nil {
		return err
	}
	p := page{
		Model: gpu.Name, Driver: gpu.Driver, Limit: gpu.Limit, Version: version.Version, Began: time.Now().UTC(),
	}
	if others, err := gpu.Processes(false); err == nil && len(others) > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d other processes had a context at the start, which disturbs every value.", len(others)))
	}
	p.Results = b.compare(ctx, log)
	p.Took = time.Since(p.Began).Round(time.Second)
	err = errors.Join(ctx.Err(), b.group.Close(), os.WriteFile(o.out, []byte(p.String()), 0o644))
	fmt.Fprint(log, "\n", p.String())
	if p.count(notRun) == len(p.Results) {
		err = errors.Join(err, errors.New("no comparison could run"))
	}
	return err
}
