package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// Site serves the pages.
type Site struct {
	config  Config
	answers *answers            // answers from the first sink
	sinks   []sink              // all sinks that can be read
	refused func() print.Answer // nil if this program writes no hours
	readers *readers            // nil if all readers see everything
	users   func() map[string]string
	now     func() time.Time
	log     *slog.Logger
	version string
}

type sink struct {
	name    string // name in logs and metrics
	label   string
	answers *answers
}

// New returns a site. Only the page "hours" reads all libraries. The other pages read the first library. users returns
// the users whose passwords the server checks.
func New(c Config, libraries []*ask.Library, users func() map[string]string, log *slog.Logger) (*Site, error) {
	s := &Site{config: c, users: users, now: libraries[0].Now, log: log}
	turns := semaphore.NewWeighted(maxQuestions)
	for _, library := range libraries {
		s.sinks = append(s.sinks, sink{library.Sink, library.Label, newAnswers(library, turns)})
	}
	s.answers = s.sinks[0].answers
	if c.Readers == "" {
		return s, nil
	}
	var err error
	s.readers, err = readReaders(c.Readers)
	return s, err
}

// Refused sets a function that returns the hours that are refused at present. The page "hours" shows them.
func (s *Site) Refused(hours func() print.Answer) { s.refused = hours }

// Version sets the version that the footer shows.
func (s *Site) Version(text string) { s.version = text }

// Header returns the name of the header that the proxy sets. The server must not remove this header. It is "" if no
// header is used.
func (s *Site) Header() string {
	if s.readers == nil {
		return ""
	}
	return s.readers.Header
}

// SearchPath is the path to which the form posts a list of names.
const SearchPath = "/search"

// Register adds the pages.
func (s *Site) Register(mux *http.ServeMux) {
	mux.Handle("GET /{$}", s.read(s.home))
	mux.Handle("GET "+SearchPath, s.read(s.search))
	mux.Handle("POST "+SearchPath, s.read(s.search))
	mux.HandleFunc("GET /style.css", serveSheet)
	for i := range pages {
		p := &pages[i]
		show := func(v *visit) error { return s.page(v, p) }
		if !p.named {
			mux.Handle("GET /"+p.path, s.read(show))
		}
		if p.named || p.monthly {
			mux.Handle("GET /"+p.path+"/{last}", s.read(show))
		}
	}
}

type visit struct {
	*http.Request
	w      http.ResponseWriter
	names  []string // users and groups of the reader
	scope  ask.Scope
	status int
}

func (s *Site) read(show func(*visit) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		v := &visit{Request: r, w: w, scope: ask.Scope{All: true}, status: http.StatusOK}
		setHeaders(w.Header())
		if s.readers != nil {
			v.names = s.readers.identity(r, s.users())
			v.scope = s.readers.scope(v.names)
		}
		err := ask.ErrScope
		if v.scope.All || len(v.scope.Rules) > 0 {
			err = show(v)
		}
		if err != nil {
			s.fail(v, err)
		}
		if s.config.LogReads {
			s.log.Info("page read", "reader", labelvalue.Printable(strings.Join(v.names, ",")), "client", r.RemoteAddr, "page", labelvalue.Printable(r.URL.RequestURI()), "status", v.status, "seconds", time.Since(began).Seconds())
		}
	})
}

// hold extends the deadline of a response. The server's own deadline of 15 seconds is too short to answer two questions
// and to send the answers.
func (v *visit) hold() {
	_ = http.NewResponseController(v.w).SetWriteDeadline(time.Now().Add(2*(maxTime+maxWait) + maxWait)) // the response recorder in tests does not support deadlines
}

func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "private, no-store")
}

func (s *Site) page(v *visit, p *page) error {
	r, output, err := p.request(v.Request, s.now())
	if err != nil {
		return err
	}
	r.Scope = v.scope
	v.hold()
	if output != "" {
		return s.download(v, r, output)
	}
	shown := s.view(v, p.title, p.about)
	shown.form(p, r)
	for i, q := range s.questions(p, r) {
		reply, err := q.answers.answer(v.Context(), q.Request)
		switch {
		case err != nil && i == 0:
			return err
		case err != nil:
			shown.Sections = append(shown.Sections, section{Title: q.title, Notices: []string{s.explain(v, err)}})
			continue
		}
		shown.add(q.title, v.Request, q.Request, reply)
	}
	if p.command == "hours" && s.refused != nil && v.scope.All {
		shown.Sections = append([]section{newSection("Refused now", s.refused(), print.Style{Zone: time.UTC}, nil)}, shown.Sections...)
	}
	return s.render(v, shown)
}

var formats = map[string]struct{ contentType, suffix string }{
	"csv": {"text/csv; charset=utf-8", ".csv"}, "json": {"application/json", ".json"}, "markdown": {"text/markdown; charset=utf-8", ".md"},
	"text": {"text/plain; charset=utf-8", ".txt"}, "html": {"text/html; charset=utf-8", ".html"},
}

func (s *Site) download(v *visit, r ask.Request, output string) error {
	format, ok := formats[output]
	if !ok {
		return invalid("o=%q: must be text, json, csv, markdown or html", output)
	}
	reply, err := s.reply(v, r)
	if err != nil {
		return err
	}
	paged := output == "markdown" || output == "html"
	switch {
	case reply.Pages != nil && !paged:
		return invalid("o=%q: must be markdown or html", output)
	case reply.Pages == nil && output == "html":
		return invalid("o=html is valid only for the report of a board")
	}
	h := v.w.Header()
	h.Set("Content-Type", format.contentType)
	if output == "html" {
		h.Set("Content-Security-Policy", print.SecurityPolicy)
	} else {
		h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", fileName(r)+format.suffix))
	}
	if reply.Pages != nil {
		return print.Pages(v.w, output, reply.Pages, reply.Style)
	}
	return reply.Answer.Write(v.w, output, reply.Style)
}

// reply returns the answer to a question. For the command "hours", it combines the hours of all sinks. Their first
// column is the name of the sink.
func (s *Site) reply(v *visit, r ask.Request) (*ask.Reply, error) {
	if r.Command != "hours" || len(s.sinks) == 1 {
		return s.answers.answer(v.Context(), r)
	}
	var all ask.Reply
	for _, sink := range s.sinks {
		reply, err := sink.answers.answer(v.Context(), r)
		switch {
		case err != nil && statusOf(err) != http.StatusNotFound:
			return nil, err
		case err != nil:
			all.Answer.Notices = append(all.Answer.Notices, sink.name+": "+s.explain(v, err))
			continue
		}
		all.Style, all.Failed = reply.Style, all.Failed || reply.Failed
		all.Answer.Columns = append([]print.Column{{Name: "sink", Title: "SINK"}}, reply.Answer.Columns...)
		for _, row := range reply.Answer.Rows {
			all.Answer.Rows = append(all.Answer.Rows, append([]any{sink.name}, row...))
		}
		for _, notice := range reply.Answer.Notices {
			all.Answer.Notices = append(all.Answer.Notices, sink.name+": "+notice)
		}
	}
	return &all, nil
}

// fileName uses only letters, digits and hyphens.
func fileName(r ask.Request) string {
	text := strings.Join(append([]string{r.Command, r.Flags.Get("month")}, r.Names...), "-")
	text = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, text)
	return strings.Trim(text[:min(len(text), 80)], "-")
}

func (s *Site) fail(v *visit, err error) {
	if v.Context().Err() != nil {
		v.status = statusGone
		return
	}
	v.status = statusOf(err)
	if v.status == http.StatusInternalServerError {
		s.log.Error("cannot answer the request for a page", "page", labelvalue.Printable(v.URL.Path), "err", err)
	}
	shown := s.view(v, http.StatusText(v.status), "")
	shown.Sections = []section{{Notices: []string{s.explain(v, err)}}}
	if unknown := new(ask.UnknownError); errors.As(err, &unknown) {
		shown.Similar = unknown.Similar
	}
	if v.status == http.StatusServiceUnavailable {
		v.w.Header().Set("Retry-After", "60")
	}
	_ = s.render(v, shown)
}

// If the client closed the connection, this status is logged.
const statusGone = 499

func statusOf(err error) int {
	switch {
	case errors.As(err, new(ask.InvalidError)):
		return http.StatusBadRequest
	case errors.Is(err, ask.ErrScope):
		return http.StatusForbidden
	case ask.IsUnknown(err):
		return http.StatusNotFound
	case errors.Is(err, errTooMany):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, errBusy), errors.Is(err, errTooSlow), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// explain returns the text of an error for a reader. Errors from a database may contain values. Therefore readers
// without [ask.Scope.All] see only errors in their own requests.
func (s *Site) explain(v *visit, err error) string {
	switch status := statusOf(err); {
	case status == http.StatusForbidden && len(v.names) == 0 && s.readers != nil:
		return "the request names no reader: sign in at the proxy, or with a user of the server"
	case status == http.StatusForbidden:
		return "this reader may not read this page"
	case status == http.StatusInternalServerError && !v.scope.All:
		return "the question failed: the log of the server contains the reason"
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}
