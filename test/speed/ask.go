package main

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// people lists commands of four people: an engineer on call, a clerk who returns boards, a capacity planner, and a
// controller.
var people = []struct{ who, command string }{
	{"engineer on call", "where 1653900000000"},
	{"engineer on call", "ran 1653900000000 --since=7d"},
	{"clerk", "history 1653900000000"},
	{"clerk", "report 1653900000000"},
	{"capacity planner", "moves"},
	{"capacity planner", "missing"},
	{"capacity planner", "idle --by=namespace --from=MONTH"},
	{"controller", "statement --by=namespace --from=MONTH"},
	{"controller", "statement --by=team --from=MONTH"},
}

// The row of a command contains its duration, and the processor time of the server and of the program.
func (s *speed) askPeople(ctx context.Context) error {
	fmt.Printf("\n| person | command | time | CPU of the store | CPU of the program |\n|---|---|---|---|---|\n")
	for _, p := range people {
		if s.only != nil && !s.only.MatchString(p.command) {
			continue
		}
		var costs []cost
		for range 3 {
			c, err := s.command(ctx, p.command)
			if err != nil {
				return fmt.Errorf("%s: %w", p.command, err)
			}
			costs = append(costs, c)
		}
		slices.SortFunc(costs, func(a, b cost) int { return cmp.Compare(a.cpu, b.cpu) })
		c, slow := costs[1], ""
		if c.cpu > limit {
			slow = " (!)"
		}
		fmt.Printf("| %s | `%s` | %.2f s | %.2f s%s | %.2f s |\n", p.who, strings.ReplaceAll(p.command, " --from=MONTH", " --month=…"), c.time.Seconds(), c.cpu.Seconds(), slow, c.client.Seconds())
	}
	return nil
}

func (s *speed) command(ctx context.Context, text string) (c cost, err error) {
	end := s.end.UTC().Truncate(time.Hour)
	args := strings.Fields(strings.ReplaceAll(text, "MONTH", end.AddDate(0, 0, -30).Format(time.RFC3339)))
	args = append(args, "--store.url="+s.server, "--to="+end.Format(time.RFC3339))
	before, err := s.used(ctx)
	if err != nil {
		return c, err
	}
	began := time.Now()
	program := exec.CommandContext(ctx, s.program, args...)
	if out, err := program.CombinedOutput(); err != nil {
		return c, fmt.Errorf("%w: %s", err, out)
	}
	c.time = time.Since(began)
	c.client = program.ProcessState.UserTime() + program.ProcessState.SystemTime()
	after, err := s.used(ctx)
	c.cpu = after - before
	return c, err
}
