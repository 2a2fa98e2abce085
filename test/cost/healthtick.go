package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/test/markdown"
	"github.com/gpuledger/gpuledger/test/program"
)

const (
	// nodesEach is the number of nodes of each kind. All nodes run at the same time.
	nodesEach = 16
	// settling is the time before the first round, in which a node requests all values once.
	settling = 25 * time.Second
	// A round contains ten ticks and one health read of each GPU.
	round      = 10 * time.Second
	tickRounds = 20
	// tickTarget is the processor time that health and profiles may add to a tick.
	tickTarget = 100 * time.Microsecond
)

// healthTick measures the processor time (user and system time) that health and profiles add to a tick of 8 GPUs.
func healthTick(ctx context.Context, out *strings.Builder) error {
	g, err := program.Open("cost")
	if err != nil {
		return err
	}
	return errors.Join(compareTicks(ctx, g, out), g.Close())
}

func compareTicks(ctx context.Context, g *program.Group, out *strings.Builder) error {
	var nodes []*node // alternately with and without values
	for range nodesEach {
		for _, flags := range [][]string{withHealth, withoutHealth} {
			n, err := startNode(ctx, g, flags...)
			if err != nil {
				return err
			}
			nodes = append(nodes, n)
		}
	}
	<-time.After(settling)
	rounds := make([]float64, 0, tickRounds) // difference in each round
	means := make([]float64, len(nodes))     // time of each node, over all rounds
	for range tickRounds {
		used, err := usedDuring(nodes, func() error { <-time.After(round); return nil })
		if err != nil {
			return err
		}
		difference := 0.0
		for i, d := range used {
			each := d.Seconds() * 1000 / round.Seconds()
			means[i] += each / tickRounds
			difference += each / nodesEach * float64(1-i%2*2)
		}
		rounds = append(rounds, difference)
	}
	with, without := everySecond(means), everySecond(means[1:])
	t := markdown.NewTable("tick of 8 GPUs", "processor time", "standard error", "rounds", "target")
	for _, kind := range []struct {
		name string
		of   []float64
	}{{"with health and profiles", with}, {"without", without}} {
		t.Add(kind.name, fmt.Sprintf("%.3f ms", mean(kind.of)), fmt.Sprintf("%.3f ms", deviation(kind.of)), "", "")
	}
	t.Add("difference", fmt.Sprintf("%.3f ms", mean(rounds)), fmt.Sprintf("%.3f ms", math.Hypot(deviation(with), deviation(without))),
		fmt.Sprintf("%.3f to %.3f ms", slices.Min(rounds), slices.Max(rounds)), fmt.Sprintf("%.3f ms", tickTarget.Seconds()*1000))
	fmt.Fprintf(out, "%s\n", t)
	return nil
}

// everySecond returns the values at even positions.
func everySecond(values []float64) (some []float64) {
	for i := 0; i < len(values); i += 2 {
		some = append(some, values[i])
	}
	return some
}

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}

func deviation(values []float64) float64 {
	m, sum, n := mean(values), 0.0, float64(len(values))
	for _, v := range values {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / (n - 1) / n)
}
