// Package promql finds the metrics and labels in the expressions of alerts, runbooks and dashboards, and checks that
// they exist.
package promql

import (
	"regexp"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/archive"
	"github.com/gpuledger/gpuledger/internal/metric"
	"github.com/gpuledger/gpuledger/internal/reconciler"
)

var (
	quoted   = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|'[^']*'|`[^`]*`")
	selector = regexp.MustCompile(`\{[^{}]*\}|\[[^\[\]]*\]`)
	listed   = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)`)
	called   = regexp.MustCompile(`\b[a-z_]+\s*\(`)
	word     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	operator = regexp.MustCompile(`^(and|or|unless|bool|offset|by|without|on|ignoring|group_left|group_right|sum|min|max|avg|count|group|topk|bottomk|inf|nan)$`)
	number   = regexp.MustCompile(`\b[0-9][0-9a-zA-Z_.]*`)
	variable = regexp.MustCompile(`\$\{?[a-zA-Z_]\w*\}?`) // variable of Grafana in the place of a number
	byName   = regexp.MustCompile(`__name__=~"([^"]*)"`)
)

// Metrics returns the names of the metrics in an expression. If the expression contains a pattern of names, Metrics
// returns the pattern.
func Metrics(expr string) []string {
	var names []string
	for _, m := range byName.FindAllStringSubmatch(expr, -1) {
		names = append(names, m[1])
	}
	for _, noise := range []*regexp.Regexp{quoted, selector, listed, called, variable, number} {
		expr = noise.ReplaceAllString(expr, " ")
		if noise == called {
			expr = strings.ReplaceAll(expr, "(", " ")
		}
	}
	for _, w := range word.FindAllString(expr, -1) {
		if !operator.MatchString(w) {
			names = append(names, w)
		}
	}
	return names
}

var (
	grouped = regexp.MustCompile(`\bby\s*\(([^()]*)\)`)
	joined  = regexp.MustCompile(`\bgroup_left\s*\(([^()]*)\)`)
)

// Labels returns the labels of an expression's series: the grouping labels, followed by the labels that a join adds.
func Labels(expr string) []string {
	expr = quoted.ReplaceAllString(expr, "")
	var labels []string
	for _, m := range append(grouped.FindAllStringSubmatch(expr, 1), joined.FindAllStringSubmatch(expr, -1)...) {
		for l := range strings.SplitSeq(m[1], ",") {
			labels = append(labels, strings.TrimSpace(l))
		}
	}
	return labels
}

// Known returns a function that reports whether a metric exists in one of our programs or in a list of other metrics.
// If the name is a pattern, each metric that it matches must exist.
func Known(others ...string) func(name string) bool {
	metrics := append(collector.Catalogue(), archive.Catalogue()...)
	for _, page := range reconciler.Catalogue() {
		metrics = append(metrics, page.Metrics...)
	}
	return func(name string) bool {
		for _, one := range alternatives(name) {
			ours := slices.ContainsFunc(metrics, func(m metric.Metric) bool { return m.Name == one })
			if !ours && !slices.Contains(others, one) {
				return false
			}
		}
		return true
	}
}

// alternatives expands a pattern such as a_(b|c)_d.
func alternatives(pattern string) []string {
	open, end := strings.IndexByte(pattern, '('), strings.IndexByte(pattern, ')')
	if open < 0 || end < open {
		return []string{pattern}
	}
	var all []string
	for one := range strings.SplitSeq(pattern[open+1:end], "|") {
		all = append(all, pattern[:open]+one+pattern[end+1:])
	}
	return all
}
