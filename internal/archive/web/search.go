package web

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/ask"
)

// maxNames is the maximum number of names in a list. maxBody is the maximum size of a request with a list, in bytes.
const (
	maxNames = 500
	maxBody  = 64 << 10
)

func (s *Site) home(v *visit) error {
	if v.URL.RawQuery != "" {
		return invalid("the page has no parameters: search with %s?q=", SearchPath)
	}
	return s.render(v, s.view(v, "GPU ledger", "Find a board, a node, a pod or a job"))
}

// For one name, search redirects to the page of this name. For a list, it shows the places of all boards.
func (s *Site) search(v *visit) error {
	values := v.URL.Query()
	if v.Method == http.MethodPost {
		body, err := io.ReadAll(http.MaxBytesReader(v.w, v.Body, maxBody))
		if err != nil {
			return invalid("the list has more than %d bytes", maxBody)
		}
		if values, err = url.ParseQuery(string(body)); err != nil {
			return ask.Invalid(err)
		}
	}
	v.hold()
	names := strings.FieldsFunc(values.Get("q"), func(r rune) bool { return strings.ContainsRune(" \t\r\n,;", r) })
	switch {
	case len(names) == 0:
		return invalid("the search box is empty")
	case len(names) > maxNames:
		return invalid("the list has %d names, at most %d are possible", len(names), maxNames)
	case len(names) == 1:
		return s.find(v, names[0])
	}
	r := ask.Request{Command: "where", Names: names, Scope: v.scope}
	if output := values.Get("o"); output != "" {
		return s.download(v, r, output)
	}
	reply, err := s.answers.answer(v.Context(), r)
	if err != nil {
		return err
	}
	shown := s.view(v, "Places of a list", "")
	shown.add("", v.Request, r, reply)
	shown.List = strings.Join(names, "\n")
	shown.Sections[0].Links = nil
	return s.render(v, shown)
}

// attempt is a question that may find a name, and the page that shows the answer.
type attempt struct {
	ask.Request
	path string
}

func attempts(name string, scope ask.Scope) (all []attempt) {
	kinds := []string{"workload"}
	if strings.Contains(name, "/") {
		kinds = []string{"pod", "unit", "workload"}
	} else {
		all = append(all, attempt{ask.Request{Command: "where", Names: []string{name}, Scope: scope}, ""})
	}
	for _, flag := range kinds {
		flags := url.Values{flag: {name}}
		all = append(all, attempt{ask.Request{Command: "ran", Flags: flags, Scope: scope}, "ran?" + flags.Encode()})
	}
	return all
}

func (s *Site) find(v *visit, name string) error {
	var first error
	for _, a := range attempts(name, v.scope) {
		reply, err := s.answers.answer(v.Context(), a.Request)
		unknown := new(ask.UnknownError)
		switch {
		case errors.As(err, &unknown) && len(unknown.Similar) == 1 && strings.HasPrefix(strings.ToLower(unknown.Similar[0]), strings.ToLower(name)):
			return s.find(v, unknown.Similar[0])
		case err == nil:
			return v.redirect(a.target(name, reply))
		case statusOf(err) == http.StatusInternalServerError || statusOf(err) == http.StatusServiceUnavailable:
			return err
		case first == nil || errors.Is(first, ask.ErrScope):
			first = err
		}
	}
	return first
}

// target returns the page of the answer. Without a path, this is the page of a board, node or chassis.
func (a attempt) target(name string, reply *ask.Reply) string {
	if a.path != "" {
		return a.path
	}
	t := newTable(reply.Answer)
	for _, row := range t.Rows {
		if t.text(row, "node") == name || t.text(row, "chassis_serial") == name {
			return "where/" + url.PathEscape(name)
		}
	}
	return "board/" + url.PathEscape(name)
}

// The location is relative, because a proxy may serve the site under another path.
func (v *visit) redirect(location string) error {
	v.status = http.StatusSeeOther
	v.w.Header().Set("Location", location)
	v.w.WriteHeader(v.status)
	return nil
}
