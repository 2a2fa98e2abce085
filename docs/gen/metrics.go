package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/archive"
	"github.com/gpuledger/gpuledger/internal/metric"
	"github.com/gpuledger/gpuledger/internal/reconciler"
	"github.com/gpuledger/gpuledger/internal/serve"
)

//go:embed metrics.md.tmpl
var metricsTemplate string

// family is a table of metrics. A label or a flag that all metrics of a family have is above the table and not in each
// row.
type family struct {
	Name    string
	Labels  []string
	Flag    string
	Metrics []metric.Metric
}

// cost is the number of series for each additional object.
type cost struct {
	Per    string
	Series int
	Hidden []hidden
}

// hidden contains a number of series that a flag can hide.
type hidden struct {
	Flag   string
	Series int
}

type exporterPage struct {
	Families []family
	Costs    []cost
}

type section struct {
	Families []family
	Labels   []metric.Label
}

func metricsPage() ([]byte, error) {
	t, err := template.New("metrics.md").Funcs(template.FuncMap{"code": code, "list": list}).Parse(metricsTemplate)
	if err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]any{
		"Main": pageOf(collector.MainPage), "Record": pageOf(collector.RecordPage), "Labels": append(collector.Labels(), serve.Label), "Parts": parts(),
		"Serving": families([]metric.Metric{serve.Metric}), "Archive": archivePart(),
	})
	if err != nil {
		return nil, fmt.Errorf("fill template: %w", err)
	}
	return out.Bytes(), nil
}

func pageOf(p metric.Page) exporterPage {
	metrics := slices.DeleteFunc(collector.Catalogue(), func(m metric.Metric) bool { return m.Page != p })
	return exporterPage{families(metrics), costs(metrics)}
}

func parts() []section {
	var ps []section
	for _, p := range reconciler.Catalogue() {
		if p.Metrics[0].Name != serve.Metric.Name { // shared by all programs
			ps = append(ps, section{families(p.Metrics), p.Labels})
		}
	}
	return ps
}

// archivePart omits the metric about HTTP requests, because all programs have it.
func archivePart() section {
	metrics := slices.DeleteFunc(archive.Catalogue(), func(m metric.Metric) bool { return m.Name == serve.Metric.Name })
	return section{families(metrics), archive.Labels()}
}

func families(metrics []metric.Metric) []family {
	var fs []family
	for _, m := range metrics {
		if len(fs) == 0 || fs[len(fs)-1].Name != m.Family {
			fs = append(fs, family{Name: m.Family})
		}
		f := &fs[len(fs)-1]
		f.Metrics = append(f.Metrics, m)
	}
	for i := range fs {
		if len(fs[i].Metrics) > 1 {
			fs[i].share()
		}
	}
	return fs
}

// share moves the labels and the flag that all metrics have from the metrics to the family.
func (f *family) share() {
	f.Labels, f.Flag = slices.Clone(f.Metrics[0].Labels), f.Metrics[0].Flag
	for _, m := range f.Metrics[1:] {
		f.Labels = slices.DeleteFunc(f.Labels, func(l string) bool { return !slices.Contains(m.Labels, l) })
		if m.Flag != f.Flag {
			f.Flag = ""
		}
	}
	for i := range f.Metrics {
		m := &f.Metrics[i]
		m.Labels = slices.DeleteFunc(slices.Clone(m.Labels), func(l string) bool { return slices.Contains(f.Labels, l) })
		if f.Flag != "" {
			m.Flag = ""
		}
	}
}

func costs(metrics []metric.Metric) []cost {
	var cs []cost
	at := make(map[string]int)
	for _, m := range metrics {
		i, ok := at[collector.Per(m)]
		if !ok {
			i = len(cs)
			at[collector.Per(m)] = i
			cs = append(cs, cost{Per: collector.Per(m)})
		}
		cs[i].Series += collector.Series(m)
		if m.Flag != "" {
			cs[i].hide(m.Flag, collector.Series(m))
		}
	}
	return cs
}

// hide adds series that a flag can hide.
func (c *cost) hide(flag string, series int) {
	i := slices.IndexFunc(c.Hidden, func(h hidden) bool { return h.Flag == flag })
	if i < 0 {
		i, c.Hidden = len(c.Hidden), append(c.Hidden, hidden{Flag: flag})
	}
	c.Hidden[i].Series += series
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func list(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = code(n)
	}
	return strings.Join(quoted, ", ")
}
