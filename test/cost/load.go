package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// accept is the header Accept that Prometheus sends by default.
const accept = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5," +
	"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"

type load struct {
	renderer renderer
	size     size
	scrapers int // number of concurrent scrapers; each scrapes without a pause
	gzip     bool
}

// A result contains averages per scrape.
type result struct {
	load
	series, bytes int
	usage
	p50, p99 time.Duration
}

type server struct {
	cmd    *exec.Cmd
	url    string
	client *http.Client
}

func start(ctx context.Context, l load) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "serve", string(l.renderer), strconv.Itoa(l.size.gpus), strconv.Itoa(l.size.containers), strconv.Itoa(l.size.processes))
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", processors))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("await the server's address: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	return &server{cmd, "http://" + strings.TrimSpace(address), &http.Client{Transport: &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: l.scrapers,
	}}}, nil
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // the only possible error is that the process was killed
}

func (s *server) get(ctx context.Context, path string, gzip bool, to io.Writer) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Accept", accept)
	if gzip {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("get %s: %s", path, resp.Status)
	}
	return io.Copy(to, resp.Body)
}

func (s *server) used(ctx context.Context) (u usage, err error) {
	var body bytes.Buffer
	if _, err = s.get(ctx, "/usage", false, &body); err != nil {
		return u, err
	}
	return u, json.Unmarshal(body.Bytes(), &u)
}

const (
	// rounds is the number of repetitions. The result is the cheapest round, because other work on the machine can only
	// increase the cost.
	rounds = 3
	// A round has enough scrapes for seriesAtOnce series, but at least scrapesAtOnce. This is enough for a 99th
	// percentile.
	seriesAtOnce  = 100_000
	scrapesAtOnce = 112
)

func measure(ctx context.Context, l load) (result, error) {
	r := result{load: l}
	s, err := start(ctx, l)
	if err != nil {
		return r, err
	}
	defer s.stop()
	var body bytes.Buffer
	for range 5 {
		body.Reset()
		if _, err := s.get(ctx, "/metrics", false, &body); err != nil {
			return r, err
		}
	}
	for line := range bytes.Lines(body.Bytes()) {
		if line[0] != '#' {
			r.series++
		}
	}
	if _, _, err := s.scrape(ctx, l, 5); err != nil { // warm-up
		return r, err
	}
	for i := range rounds {
		next, err := s.round(ctx, r)
		if err != nil {
			return r, err
		}
		if i == 0 || next.CPU < r.CPU {
			r.usage, r.bytes = next.usage, next.bytes
		}
		if i == 0 || next.p99 < r.p99 {
			r.p50, r.p99 = next.p50, next.p99
		}
	}
	return r, nil
}

func (s *server) round(ctx context.Context, r result) (result, error) {
	before, err := s.used(ctx)
	if err != nil {
		return r, err
	}
	took, read, err := s.scrape(ctx, r.load, max(seriesAtOnce/r.series, scrapesAtOnce)/r.scrapers)
	if err != nil {
		return r, err
	}
	after, err := s.used(ctx)
	if err != nil {
		return r, err
	}
	n := len(took)
	r.usage, r.bytes = after.less(before).by(n), int(read)/n
	r.p50, r.p99 = took[n/2], took[n*99/100]
	return r, nil
}

// scrape returns the sorted durations and the number of bytes. Each scraper scrapes the given number of times.
func (s *server) scrape(ctx context.Context, l load, each int) (took []time.Duration, read int64, err error) {
	times, counts := make([][]time.Duration, l.scrapers), make([]int64, l.scrapers)
	g, ctx := errgroup.WithContext(ctx)
	for i := range l.scrapers {
		g.Go(func() error {
			for range each {
				began := time.Now()
				n, err := s.get(ctx, "/metrics", l.gzip, io.Discard)
				if err != nil {
					return err
				}
				times[i] = append(times[i], time.Since(began))
				counts[i] += n
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, 0, err
	}
	for _, n := range counts {
		read += n
	}
	took = slices.Concat(times...)
	slices.Sort(took)
	return took, read, nil
}
