package ask

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
)

// Request is a question from the reader of a page.
type Request struct {
	Command string
	// Names contains the names of boards, nodes or chassis.
	Names []string
	// Flags contains the values of flags, by name. Flags that select files or sources are rejected.
	Flags url.Values
	// Scope limits the answer.
	Scope Scope
}

// Library answers the requests from pages. It reads the archive or store of a server.
type Library struct {
	// Open opens the source. Label is the flag that selects the source, for use in notices. If Open is nil, the file
	// Config must contain the flag that selects the source.
	Open  func(ctx context.Context) (books.Source, error)
	Label string
	// Sink is the name of the source in the server's logs and metrics.
	Sink string
	// Config is the path of a file with flag values, as in --config. It may be empty.
	Config string
	// Filing contains the flags of the store and the sinks, as shell words. They are part of the commands on the page
	// of hours. Only readers with [Scope.All] see these flags.
	Filing string
	// Locked is a notice that the server locks a sink. The commands on the page of hours cannot write to this sink
	// until the server ends. Locked is empty if no sink is locked.
	Locked string
	Now    func() time.Time
	// MaxSums limits the number of charge sums in the answer to one request. If a request needs more, it fails with
	// [books.ErrTooMany]. 0 means that there is no limit.
	MaxSums int
}

// Reply is the answer to a question. It contains a table or pages.
type Reply struct {
	Answer print.Answer
	Pages  []print.Page
	Style  print.Style
	// Failed is set if the answer reports a problem, for example missing hours.
	Failed bool
}

// InvalidError is the error for a request with an invalid flag or name.
type InvalidError struct{ error }

// Invalid returns an error as an [InvalidError].
func Invalid(err error) error { return InvalidError{err} }

// Unwrap returns the wrapped error.
func (e InvalidError) Unwrap() error { return e.error }

// settingsError is the error for an invalid settings file, such as the file of prices. It is not an InvalidError,
// because the reader of a page cannot repair the file.
type settingsError struct{ error }

// readerFlags contains the flags that readers of pages can set. All other flags select files, archives or stores on the
// server.
var readerFlags = []string{"age", "at", "by", "compare", "failures", "format", "from", "month", "of-cluster", "pod", "since", "to", "tz", "unit", "workload"}

// Answer answers a request. If the request is invalid, the error is an [InvalidError]. If the reader's scope does not
// allow the request, the error is [ErrScope]. If the source does not contain a name or time, [IsUnknown] is true for
// the error.
func (l *Library) Answer(ctx context.Context, r Request) (reply *Reply, err error) {
	c := find(r.Command)
	if c == nil {
		return nil, InvalidError{fmt.Errorf("unknown question %q", r.Command)}
	}
	o, err := c.request(r, l.Config)
	switch {
	case errors.As(err, new(settingsError)):
		return nil, err
	case err != nil:
		return nil, InvalidError{err}
	}
	if err := r.Scope.allows(c, o); err != nil {
		return nil, err
	}
	if r.Scope.All {
		o.filing, o.locked = l.Filing, l.Locked
	}
	source, err := l.open(ctx, c, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	limited := newReader(r.Scope.limit(source))
	limited.limit = l.MaxSums
	return c.reply(ctx, &question{options: *o, source: limited, now: l.Now().UTC(), progress: func(string) {}, limited: !r.Scope.All})
}

func (l *Library) open(ctx context.Context, c *command, o *options) (books.Source, error) {
	if l.Open == nil {
		return c.open(ctx, o, func(string) {})
	}
	o.Books = l.Label
	return l.Open(ctx)
}

func (c *command) request(r Request, config string) (*options, error) {
	fs, o := c.flags()
	for _, name := range slices.Sorted(maps.Keys(r.Flags)) {
		values := r.Flags[name]
		if fs.Lookup(name) == nil || !slices.Contains(readerFlags, name) {
			return nil, fmt.Errorf("unknown parameter %q: must be one of %s", name, strings.Join(c.readerFlags(fs), ", "))
		}
		if len(values) != 1 {
			return nil, fmt.Errorf("parameter %q is set %d times", name, len(values))
		}
		if err := fs.Set(name, values[0]); err != nil {
			return nil, fmt.Errorf("%s=%q: %w", name, values[0], err)
		}
	}
	if err := c.exclude(fs); err != nil {
		return nil, err
	}
	if config != "" {
		o.Config = config
	}
	if err := o.defaults(fs); err != nil {
		return nil, settingsError{err}
	}
	if c.document != nil && len(r.Names) > 0 {
		return nil, fmt.Errorf("%s takes no name here", c.name)
	}
	if slices.Contains(r.Names, "") {
		return nil, errors.New("a name is empty")
	}
	if err := c.checkNames(o, r.Names); err != nil {
		return nil, err
	}
	o.names = r.Names
	return o, o.validate(c)
}

func (c *command) readerFlags(fs *flag.FlagSet) []string {
	return slices.DeleteFunc(slices.Clone(readerFlags), func(name string) bool { return fs.Lookup(name) == nil })
}

// CommandLine returns the command that prints the same answer.
func (r Request) CommandLine() string {
	words := []string{"gpuledger-archive", r.Command}
	for _, name := range r.Names {
		words = append(words, Quoted(name))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Flags)) {
		words = append(words, "--"+name+"="+Quoted(r.Flags.Get(name)))
	}
	return strings.Join(words, " ")
}

// Quoted returns the text as one shell word, in quotes if necessary.
func Quoted(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./,:", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// IsUnknown reports whether an error means that the source does not contain a name or a time.
func IsUnknown(err error) bool {
	return errors.As(err, new(*UnknownError)) || errors.As(err, new(*noHoursError)) || errors.As(err, new(unusedError))
}

type unusedError struct{ error }
