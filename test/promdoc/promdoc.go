// Package promdoc parses the queries in the documents, so that tests run the queries that users copy.
package promdoc

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// A Query is a block of PromQL in a document, with its position.
type Query struct {
	Part  string // heading of level 1 above the query
	Title string // heading of level 3 above the query: the question
	Text  string // text as written, with variables such as $serial
}

// Doc contains the queries of a document in order.
type Doc []Query

// Read parses the queries of a Markdown file. Each heading must have one query, and titles must be unique.
func Read(file string) (Doc, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read queries: %w", err)
	}
	var doc Doc
	var at Query
	inside := false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "```promql"):
			inside, at.Text = true, ""
		case inside && strings.HasPrefix(line, "```"):
			inside = false
			if _, err := doc.find(at.Title); err == nil {
				return nil, fmt.Errorf("read queries: %s: %q has two queries", file, at.Title)
			}
			doc = append(doc, at)
		case inside:
			at.Text += line
		case strings.HasPrefix(line, "# "):
			at = Query{Part: strings.TrimSpace(line[2:])}
		case strings.HasPrefix(line, "### "):
			at.Title = strings.TrimSpace(line[4:])
		}
	}
	return doc, nil
}

var block = regexp.MustCompile("(?ms)^ *```promql\n(.*?)^ *```$")

// Blocks returns the blocks of PromQL in a document that has no headings for queries, such as a runbook.
func Blocks(document string) []string {
	var queries []string
	for _, m := range block.FindAllStringSubmatch(document, -1) {
		queries = append(queries, m[1])
	}
	return queries
}

// Part returns the queries of one part of the document.
func (d Doc) Part(heading string) Doc {
	var part Doc
	for _, q := range d {
		if q.Part == heading {
			part = append(part, q)
		}
	}
	return part
}

// Query returns the query under a heading, with the values of its variables. The map must contain each variable in the
// query.
func (d Doc) Query(title string, variables map[string]string) (string, error) {
	q, err := d.find(title)
	if err != nil {
		return "", err
	}
	return q.Fill(variables)
}

func (d Doc) find(title string) (Query, error) {
	for _, q := range d {
		if q.Title == title {
			return q, nil
		}
	}
	return Query{}, fmt.Errorf("the document lacks the question %q", title)
}

// variable matches Grafana's variables. It does not match $1, which is a group in label_replace.
var variable = regexp.MustCompile(`\$[A-Za-z_]+`)

// Variables returns the names of the query's variables, without the dollar sign.
func (q Query) Variables() []string {
	var names []string
	for _, v := range variable.FindAllString(q.Text, -1) {
		names = append(names, v[1:])
	}
	return names
}

// Fill replaces the variables in the query with their values.
func (q Query) Fill(variables map[string]string) (string, error) {
	for _, name := range q.Variables() {
		if _, ok := variables[name]; !ok {
			return "", fmt.Errorf("fill %q: no value for $%s", q.Title, name)
		}
	}
	return variable.ReplaceAllStringFunc(q.Text, func(v string) string { return variables[v[1:]] }), nil
}
