// Speed measures the queries in docs/queries.md about boards and their history, on a real Prometheus that contains the
// data of 8,000 GPUs over 90 days. It prints the duration of each query. If a query reads the results of the hourly
// recording rule for placements, Speed also measures it on the scraped series.
//
// Then Speed measures the queries in the dashboard "Fleet" that read the whole time range, the recording rules, and
// commands that people run. It also prints the processor time of the server, which hardly depends on other work on the
// machine.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/promdoc"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var s speed
	flag.StringVar((*string)(&s.programs), "prometheus", "", "`folder` of prometheus, as printed by tools/servers")
	flag.StringVar(&s.history, "history", "", "`program` from tools/history that writes the history")
	flag.StringVar(&s.program, "archive", "", "path of gpuledger-archive, the `program` that runs the commands; if empty, commands are not measured")
	flag.IntVar(&s.gpus, "gpus", 8000, "`number` of GPUs")
	flag.IntVar(&s.days, "days", 90, "`number` of days")
	flag.Func("only", "measure only questions with a title that matches this `regexp`", func(text string) (err error) {
		s.only, err = regexp.Compile(text)
		return err
	})
	flag.Parse()
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

type speed struct {
	programs   prometheus.Programs
	history    string
	program    string
	gpus, days int
	only       *regexp.Regexp // nil for all questions

	server string // URL of Prometheus
	end    time.Time
}

// limit is the maximum processor time of a query (docs/performance.md).
const limit = 2 * time.Second

func (s *speed) run(ctx context.Context) (err error) {
	doc, err := promdoc.Read("docs/queries.md")
	if err != nil {
		return err
	}
	group, err := program.Open("speed")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Close()) }()
	if err := s.start(ctx, group); err != nil {
		return err
	}
	fmt.Printf("%d processors\n\n| question | window | elements | time | CPU | CPU of the record itself |\n|---|---|---|---|---|---|\n", runtime.GOMAXPROCS(0))
	for _, q := range doc.Part("Boards and history") {
		if s.only != nil && !s.only.MatchString(q.Title) {
			continue
		}
		if err := s.ask(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q.Title, err)
		}
	}
	if err := s.askFleet(ctx); err != nil {
		return err
	}
	if err := s.evaluate(ctx); err != nil || s.program == "" {
		return err
	}
	return s.askPeople(ctx)
}

// askFleet prints a row for each query in the dashboard "Fleet" that reads the whole time range.
func (s *speed) askFleet(ctx context.Context) error {
	text, err := os.ReadFile("dashboards/fleet.json")
	if err != nil {
		return err
	}
	var fleet struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &fleet); err != nil {
		return err
	}
	window := fmt.Sprintf("%dd", s.days)
	for _, p := range fleet.Panels {
		for _, q := range p.Targets {
			if s.only != nil && !s.only.MatchString(p.Title) || !strings.Contains(q.Expr, "$__range") {
				continue
			}
			c, err := s.measure(ctx, strings.NewReplacer("$__range", window, "$__interval", fmt.Sprintf("%ds", s.days*86400/1000), "$cluster", ".*", "$model", ".*").Replace(q.Expr), s.end)
			if err != nil {
				return fmt.Errorf("%s: %w", p.Title, err)
			}
			c.print("Fleet: "+p.Title, window, "")
		}
	}
	return nil
}

func (s *speed) start(ctx context.Context, group *program.Group) (err error) {
	p := prometheus.Server{
		Programs: s.programs, Group: group, Name: "history",
		Flags: []string{"--storage.tsdb.retention.time=10y", "--query.timeout=10m"},
	}
	if p.Address, err = program.FreeAddress(); err != nil {
		return err
	}
	write := exec.CommandContext(ctx, s.history, "--out="+group.Path(p.Name), fmt.Sprintf("--gpus=%d", s.gpus), fmt.Sprintf("--days=%d", s.days))
	write.Stdout, write.Stderr = os.Stdout, os.Stderr
	s.end = time.Now().Truncate(24 * time.Hour).Add(-2 * time.Hour) // the rules have results for the last hour at this time
	if err := write.Run(); err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	s.server = p.URL()
	_, err = p.Start(ctx)
	return err
}

// ask prints a row for each window.
func (s *speed) ask(ctx context.Context, q promdoc.Query) error {
	for _, window := range windows(q) {
		text, err := q.Fill(map[string]string{
			"serial": "1653900000000", "chassis": "1820900000000", "workload_uid": "team-0train-0", "price": "0.25",
			"window": window, "cluster": "cluster-0",
		})
		if err != nil {
			return err
		}
		c, err := s.measure(ctx, text, s.end)
		if err != nil {
			return err
		}
		record := ""
		if strings.Contains(text, rollUp) {
			raw, err := s.measure(ctx, strings.ReplaceAll(text, rollUp, "gpuledger_placement_info"), s.end)
			if err != nil {
				return err
			}
			record = fmt.Sprintf("%.1f s, %.0f times", raw.cpu.Seconds(), raw.cpu.Seconds()/c.cpu.Seconds())
		}
		c.print(q.Title, window, record)
	}
	return nil
}

// windows returns the values of $window to measure. They are an hour and, if the query reads hourly results of rules, a
// month.
func windows(q promdoc.Query) []string {
	switch {
	case !slices.Contains(q.Variables(), "window"):
		return []string{""}
	case strings.Contains(q.Text, ":increase1h"):
		return []string{"1h", "30d"}
	default:
		return []string{"1h"}
	}
}

// rollUp is the result of an hourly recording rule. Queries about months read it.
const rollUp = "gpuledger:placement_info:present1h"

// elements is the number of elements in the result of a query.
type cost struct {
	elements  int
	time, cpu time.Duration // cpu is the processor time of the server
	client    time.Duration
}

// print marks a query that exceeds the limit.
func (c cost) print(title, window, record string) {
	slow := ""
	if c.cpu > limit {
		slow = " (!)"
	}
	fmt.Printf("| %s | %s | %d | %.2f s | %.2f s%s | %s |\n", title, window, c.elements, c.time.Seconds(), c.cpu.Seconds(), slow, record)
}

// measure returns the median of three runs after a warm-up. It runs a slow query only once.
func (s *speed) measure(ctx context.Context, text string, at time.Time) (cost, error) {
	var costs []cost
	for range 4 {
		used, err := s.used(ctx)
		if err != nil {
			return cost{}, err
		}
		began := time.Now()
		samples, err := prometheus.Query(ctx, s.server, text, at)
		if err != nil {
			return cost{}, err
		}
		c := cost{elements: len(samples), time: time.Since(began)}
		after, err := s.used(ctx)
		if err != nil {
			return cost{}, err
		}
		c.cpu = after - used
		if costs = append(costs, c); c.cpu > 5*limit {
			return c, nil
		}
	}
	costs = costs[1:]
	slices.SortFunc(costs, func(a, b cost) int { return cmp.Compare(a.cpu, b.cpu) })
	return costs[1], nil
}

func (s *speed) used(ctx context.Context) (time.Duration, error) {
	page, err := exposition.Scrape(ctx, s.server+"/metrics")
	if err != nil {
		return 0, err
	}
	return time.Duration(page.Sum("process_cpu_seconds_total", nil) * float64(time.Second)), nil
}
