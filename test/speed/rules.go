package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"sigs.k8s.io/yaml"
)

// ready is the time after the end of an hour at which all rules have results for it.
const ready = 35 * time.Minute

// evaluate prints a row with the cost of an evaluation for each recording rule about energy and placement. The title of
// such a row begins with "Rule", so --only can match it.
func (s *speed) evaluate(ctx context.Context) error {
	fmt.Printf("\n| rule | elements | time | CPU |\n|---|---|---|---|\n")
	for _, name := range []string{"energy", "placement"} {
		text, err := os.ReadFile("dashboards/rules/" + name + ".yaml")
		if err != nil {
			return err
		}
		var file struct {
			Groups []struct {
				Rules []struct{ Record, Expr string }
			}
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, group := range file.Groups {
			for _, rule := range group.Rules {
				if s.only != nil && !s.only.MatchString("Rule "+rule.Record) {
					continue
				}
				c, err := s.measure(ctx, rule.Expr, s.end.Add(ready))
				if err != nil {
					return fmt.Errorf("%s: %w", rule.Record, err)
				}
				fmt.Printf("| `%s` | %d | %.2f s | %.2f s |\n", rule.Record, c.elements, c.time.Seconds(), c.cpu.Seconds())
			}
		}
	}
	return nil
}
