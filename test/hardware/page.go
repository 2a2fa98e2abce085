package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/test/markdown"
)

type finding string

const (
	agrees  finding = ""
	differs finding = "differs"
	notRun  finding = "not run"
)

// reason is set if the comparison could not run.
type result struct {
	comparison
	measured measured
	finding  finding
	reason   string
}

func (r result) String() string {
	switch r.finding {
	case notRun:
		return "not run: " + r.reason
	case differs:
		return fmt.Sprintf("%s, DIFFERS from %s", r.measured.text, r.assumed)
	}
	return r.measured.text + ", agrees"
}

type page struct {
	Model, Driver, Version string
	Limit                  float64
	Began                  time.Time
	Took                   time.Duration
	Notes                  []string
	Results                []result
}

func (p page) count(v finding) (n int) {
	for _, r := range p.Results {
		if r.finding == v {
			n++
		}
	}
	return n
}

func (p page) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n\nDriver %s, power limit %.0f W, gpuledger %s, %s, %v.\n\n", p.Model, p.Driver, p.Limit, p.Version,
		p.Began.Format("2006-01-02"), p.Took)
	fmt.Fprintf(&out, "%d assumptions agree, **%d differ**, %d were not compared.\n\n", p.count(agrees), p.count(differs), p.count(notRun))
	for _, n := range p.Notes {
		out.WriteString("**Note:** " + n + "\n\n")
	}
	t := markdown.NewTable("question", "assumed", "where", "measured", "result")
	for _, r := range p.Results {
		t.Add(r.question, r.assumed, r.where(), r.text(), r.outcome())
	}
	out.WriteString(t.String())
	out.WriteString("\n## Constants in the code\n\n")
	t = markdown.NewTable("constant", "today", "measured")
	for _, r := range p.Results {
		if r.code != "" {
			t.Add("`"+r.constant+"`: "+r.question, "`"+r.code+"`", r.text())
		}
	}
	out.WriteString(t.String())
	return out.String()
}

func (r result) text() string {
	if r.finding == notRun {
		return ""
	}
	return cell(r.measured.text)
}

func (r result) where() string {
	if r.constant == "" {
		return "`" + r.place + "`"
	}
	return "`" + r.place + "`: " + r.constant
}

func (r result) outcome() string {
	switch r.finding {
	case notRun:
		return "not run: " + cell(r.reason)
	case differs:
		return "**differs**"
	}
	return "agrees"
}

func cell(text string) string {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "|", "/")), " ")
	if runes := []rune(text); len(runes) > 200 {
		return string(runes[:200]) + "…"
	}
	return text
}
