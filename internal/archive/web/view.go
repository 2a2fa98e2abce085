package web

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
	"github.com/gpuledger/gpuledger/internal/style"
)

//go:embed site.html
var siteHTML string

//go:embed site.css
var siteCSS string

var site = template.Must(template.New("site").Funcs(template.FuncMap{
	"printable": labelvalue.Printable,
	"number":    isNumber,
	"known":     slices.Contains[[]string],
	"dict":      func(root string, s section) any { return rooted{root, s} },
}).Parse(siteHTML))

type rooted struct {
	Root    string
	Section section
}

// serveSheet serves the style sheet of all programs, and then the styles of these pages.
func serveSheet(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("Cache-Control", "max-age=3600")
	_, _ = w.Write([]byte(style.Sheet + siteCSS))
}

type view struct {
	Root           string // path of the site, relative to the page
	Title, About   string
	Reader         string
	Version        string
	Nav            []link
	Sections       []section
	Similar        []string
	Form           *form
	List           string // names in the list that was searched
	Home           bool
	Previous, Next *link
}

type link struct{ URL, Text string }

type form struct {
	Action, Month, By string
	Groups            []string
	Named             bool
}

type section struct {
	Title, Command string
	Complete       string
	Columns        []print.Column
	Rows           [][]cellText
	Notices        []string
	Links          []link
	Explain        []explanation
	Chart          chart
	Empty          bool
}

type cellText struct {
	Text, URL string
	Number    bool
}

// shownRows is the maximum number of rows on a page.
const shownRows = 1000

func (s *Site) view(v *visit, title, about string) *view {
	shown := &view{Root: "./", Title: title, About: about, Reader: strings.Join(v.names, ", "), Version: s.version, Home: v.URL.Path == "/"}
	if strings.Count(v.URL.Path, "/") > 1 {
		shown.Root = "../"
	}
	for _, p := range pages {
		if p.nav {
			shown.Nav = append(shown.Nav, link{p.path, p.title})
		}
	}
	return shown
}

// These are the groups for the parameter "by" of a page.
var groups = []string{"team", "namespace", "workload", "pod", "unit", "user", "queue", "node", "serial", "cluster", "model", "reason"}

func (v *view) form(p *page, r ask.Request) {
	if !p.monthly {
		return
	}
	f := &form{Action: p.path, Month: r.Flags.Get("month"), By: r.Flags.Get("by")}
	if p.command == "moves" && len(r.Flags.Get("from")) >= len("2026-10") {
		f.Month = r.Flags.Get("from")[:len("2026-10")]
	}
	if p.command == "statement" || p.command == "idle" {
		f.Groups = groups
		f.By = cmp.Or(f.By, map[string]string{"statement": "team", "idle": "namespace"}[p.command])
	}
	v.Form = f
	v.Title = strings.TrimSpace(v.Title + " " + f.Month)
	month, err := time.Parse("2006-01", f.Month)
	if err != nil {
		return
	}
	other := func(months int) *link {
		values := maps.Clone(r.Flags)
		for _, name := range []string{"month", "from", "to"} {
			values.Del(name)
		}
		text := month.AddDate(0, months, 0).Format("2006-01")
		return &link{p.path + "/" + text + query(values), text}
	}
	v.Previous, v.Next = other(-1), other(1)
}

func query(values url.Values) string {
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

func (v *view) add(title string, page *http.Request, r ask.Request, reply *ask.Reply) {
	downloads := downloads(page, r, reply)
	if reply.Pages == nil {
		s := newSection(title, reply.Answer, reply.Style, periodOf(r))
		s.Command, s.Links = r.CommandLine(), downloads
		v.Sections = append(v.Sections, s)
		return
	}
	for _, p := range reply.Pages {
		v.Title = p.Title
		for i, part := range p.Sections {
			s := newSection(part.Title, part.Answer, reply.Style, periodOf(r))
			if i == 0 {
				s.Command, s.Links = r.CommandLine(), downloads
			}
			v.Sections = append(v.Sections, s)
		}
	}
}

func downloads(page *http.Request, r ask.Request, reply *ask.Reply) (links []link) {
	last := page.URL.EscapedPath()
	last = "./" + last[strings.LastIndexByte(last, '/')+1:]
	to := func(text, output string, more ...string) {
		values := maps.Clone(r.Flags)
		if values == nil {
			values = make(url.Values)
		}
		if page.PathValue("last") != "" {
			values.Del("month")
			if r.Command == "moves" {
				values.Del("from")
				values.Del("to")
			}
		}
		for i := 0; i < len(more); i += 2 {
			values.Set(more[i], more[i+1])
		}
		values.Set("o", output)
		links = append(links, link{last + query(values), text})
	}
	if reply.Pages != nil {
		to("RMA report for print", "html")
		to("RMA report as Markdown", "markdown")
		return links
	}
	to("CSV", "csv")
	to("JSON", "json")
	if r.Command == "statement" && !r.Flags.Has("compare") && r.Scope.All {
		to("FOCUS 1.3", "csv", "format", "focus")
	}
	return links
}

// In the section, a pod or unit links to the boards that it used in the period.
func newSection(title string, a print.Answer, of print.Style, period url.Values) section {
	columns, rows := a.Shown(of)
	links := newLinker(columns, period)
	s := section{Title: title, Columns: columns, Notices: a.Notices, Chart: draw(a, of), Complete: complete(a), Explain: explanations(a), Empty: len(a.Rows) == 0}
	if len(rows) > shownRows {
		s.Notices = append([]string{fmt.Sprintf("the page shows %d of %d rows: CSV and JSON contain all rows", shownRows, len(rows))}, s.Notices...)
		rows = rows[:shownRows]
	}
	for _, row := range rows {
		var cells []cellText
		for i, text := range row {
			cells = append(cells, cellText{text, links.page(columns[i].Name, row), isNumber(columns[i])})
		}
		s.Rows = append(s.Rows, cells)
	}
	return s
}

func isNumber(c print.Column) bool {
	return c.Kind != print.Text && c.Kind != print.Time && c.Kind != print.Flag
}

// complete returns "" if the answer has no column "complete".
func complete(a print.Answer) string {
	t := newTable(a)
	if !t.has("complete") {
		return ""
	}
	if all, _ := t.Rows[0][t.at["complete"]].(bool); all {
		return "complete"
	}
	return "incomplete"
}

func (s *Site) render(v *visit, shown *view) error {
	var page bytes.Buffer
	if err := site.ExecuteTemplate(&page, "page", shown); err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.Header().Set("Content-Length", strconv.Itoa(page.Len()))
	v.w.WriteHeader(v.status)
	_, err := v.w.Write(page.Bytes())
	return err
}
