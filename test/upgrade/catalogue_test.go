//go:build e2e

package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// pages is the path of the program pages of this version.
var pages string

func TestMain(m *testing.M) {
	code := 1
	dir, err := os.MkdirTemp("", "upgrade")
	if err == nil {
		pages = filepath.Join(dir, "pages")
		build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", pages, "./pages")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path, what, input string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, what)
	cmd.Stdin, cmd.Stderr = strings.NewReader(input), t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return out
}

type family struct {
	Name, Type, Page string
	Labels           []string
}

func catalogue(t *testing.T, path string) map[string]family {
	t.Helper()
	var all []family
	check(t, json.Unmarshal(read(t, path, "catalogue", ""), &all))
	families := make(map[string]family)
	for _, f := range all {
		program, _, _ := strings.Cut(f.Page, "/")
		families[program+" "+f.Name] = f
	}
	if len(families) < 100 {
		t.Fatalf("%s has %d metrics", path, len(families))
	}
	return families
}

func minus(sign string, list, other []string) (all []string) {
	for _, s := range list {
		if !slices.Contains(other, s) {
			all = append(all, " "+sign+s)
		}
	}
	return all
}

// TestUpgradeMetrics allows new metrics. All other changes break queries or start new series.
func TestUpgradeMetrics(t *testing.T) {
	earlier, now := catalogue(t, Previous(t).Program("pages")), catalogue(t, pages)
	var found []string
	for key, was := range earlier {
		is, ok := now[key]
		switch {
		case !ok:
			found = append(found, was.Name+" is removed")
			continue
		case is.Type != was.Type:
			found = append(found, was.Name+" is a "+is.Type)
		case is.Page != was.Page:
			found = append(found, was.Name+" is on "+is.Page)
		}
		if labels := slices.Concat(minus("-", was.Labels, is.Labels), minus("+", is.Labels, was.Labels)); labels != nil {
			found = append(found, was.Name+strings.Join(labels, ""))
		}
	}
	Compare(t, "metric", found)
}

var expressionKeys = []string{"expr", "query", "definition"}

// expressions also returns the templates in annotations, because a template can contain a query.
func expressions(value any) (all []string) {
	switch v := value.(type) {
	case []any:
		for _, inner := range v {
			all = append(all, expressions(inner)...)
		}
	case map[string]any:
		for key, inner := range v {
			if text, ok := inner.(string); ok && (slices.Contains(expressionKeys, key) || strings.Contains(text, "{{")) {
				all = append(all, text)
			}
			all = append(all, expressions(inner)...)
		}
	}
	return all
}

// readings returns the expressions in rules and dashboards, and the names that the rules record.
func readings(t *testing.T, folder string) (texts, recorded []string) {
	t.Helper()
	check(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "/tests/") {
			return err
		}
		if extension := filepath.Ext(path); extension != ".json" && extension != ".yaml" {
			return nil
		}
		text, err := os.ReadFile(path)
		check(t, err)
		var value any
		check(t, yaml.Unmarshal(text, &value))
		texts = append(texts, expressions(value)...)
		for _, match := range record.FindAllSubmatch(text, -1) {
			recorded = append(recorded, string(match[1]))
		}
		return nil
	}))
	if len(texts) < 200 || len(recorded) < 20 {
		t.Fatalf("%s: %d expressions and %d recorded names", folder, len(texts), len(recorded))
	}
	return texts, recorded
}

var (
	record  = regexp.MustCompile(`(?m)^\s*(?:- )?record: (\S+)$`)
	byName  = regexp.MustCompile(`__name__=~"([^"]*)"`)
	aMetric = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
)

func reads(text, name string) bool {
	for _, match := range byName.FindAllStringSubmatch(text, -1) {
		if regexp.MustCompile("^(?:" + match[1] + ")$").MatchString(name) {
			return true
		}
	}
	return slices.Contains(aMetric.FindAllString(text, -1), name)
}

// missing returns the metrics and labels that the expressions read and that are only in the first catalogue.
func missing(texts []string, in, out map[string]family) (all []string) {
	for key, is := range in {
		was, known := out[key]
		for _, text := range texts {
			if !reads(text, is.Name) {
				continue
			}
			if !known {
				all = append(all, is.Name)
				continue
			}
			words := aMetric.FindAllString(text, -1)
			for _, label := range is.Labels {
				if !slices.Contains(was.Labels, label) && slices.Contains(words, label) {
					all = append(all, is.Name+" "+label)
				}
			}
		}
	}
	return all
}

// TestUpgradeRules compares the metrics and labels that the rules and dashboards of one version read with the metrics
// of the other version. A metric or label is new if only this version has it. It is removed if only the earlier version
// has it.
func TestUpgradeRules(t *testing.T) {
	previous := Previous(t)
	earlier, now := catalogue(t, previous.Program("pages")), catalogue(t, pages)
	texts, recorded := readings(t, "../../dashboards")
	before, recordedBefore := readings(t, previous.Source("dashboards"))
	var found []string
	for _, name := range missing(texts, now, earlier) {
		found = append(found, "new: "+name)
	}
	for _, name := range missing(before, earlier, now) {
		found = append(found, "gone: "+name)
	}
	for _, name := range minus("", recordedBefore, recorded) {
		found = append(found, "no longer recorded:"+name)
	}
	Compare(t, "rule", found)
}
