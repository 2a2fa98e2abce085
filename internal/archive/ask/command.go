// Package ask answers questions about boards, pods and teams from an archive or a store.
package ask

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// command is a subcommand that answers a question.
type command struct {
	name, argument, help string
	optional             bool  // the argument may be omitted
	several              bool  // the command accepts several arguments
	details              bool  // the command needs rows that pruned hours do not have
	samples              bool  // results of recording rules are not sufficient
	reach                reach // smallest scope that allows the command
	since                time.Duration
	excluded             [][2]string // pairs of time flags that exclude each other only in this command
	extra                func(*flag.FlagSet, *options)
	answer               func(*question, context.Context) (print.Answer, error)
	pages                func(*question, context.Context) ([]print.Page, error) // used instead of answer
	document             func(*options, Terminal) error                         // used instead of answer if there is an argument; does not read an archive
}

func at(fs *flag.FlagSet, o *options) {
	fs.Func("at", "`time` in UTC for which the question is answered; default is now", o.At.set)
}

func money(fs *flag.FlagSet, o *options) { o.Factors.Register(fs) }

func ofMonth(fs *flag.FlagSet, o *options) {
	fs.Func("month", "`month` in UTC such as 2026-10; default is the last full month", o.Month.set)
}

func rma(fs *flag.FlagSet, o *options) {
	fs.StringVar(&o.Factors.RMA, "rma", "", "CSV `file` of returned boards, with the columns old_serial, new_serial, rma")
}

func selected(fs *flag.FlagSet, o *options) {
	fs.BoolVar(&o.InWarranty, "in-warranty", false, "list only boards that are in warranty at the end of the selected time, according to --assets")
	fs.BoolVar(&o.Uncorrectable, "uncorrectable", false, "list only boards with uncorrectable memory errors")
}

func by(fs *flag.FlagSet, o *options, initial string) {
	fs.StringVar(&o.By, "by", initial, "`groups`: one or more of "+groups)
}

func commands() []command {
	return []command{
		{
			name: "where", reach: clusterReach, details: true, argument: "SERIAL…", several: true, help: "the current or last place of a board: by serial, UUID, asset tag, node or chassis",
			extra: at, answer: (*question).where,
		}, {
			name: "history", reach: clusterReach, details: true, argument: "SERIAL…", several: true, help: "the places of a board over time, with the energy in each place and the reason why the board left", answer: (*question).history,
		}, {
			name: "ran", reach: chargeReach, details: true, argument: "SERIAL", optional: true, help: "the pods that used a board, or the boards that a pod or workload used",
			excluded: [][2]string{{"at", "from"}, {"at", "since"}}, // --at selects one hour
			extra: func(fs *flag.FlagSet, o *options) {
				at(fs, o)
				fs.StringVar(&o.Pod, "pod", "", "`pod` as namespace/pod")
				fs.StringVar(&o.Workload, "workload", "", "`workload` as name, kind/name or namespace/kind/name")
				fs.StringVar(&o.Unit, "unit", "", "`unit` outside Kubernetes, such as slurm/4711")
			}, answer: (*question).ran,
		}, {
			name: "statement", reach: chargeReach, help: "energy, GPU hours, money and carbon of each team in a month",
			extra: func(fs *flag.FlagSet, o *options) {
				ofMonth(fs, o)
				by(fs, o, "team")
				money(fs, o)
				fs.BoolVar(&o.Compare, "compare", false, "compare with the month before, or, if --from is set, with the same number of hours before --from")
				fs.StringVar(&o.Sign, "sign", "", "`file` with an Ed25519 private key in PEM; prints the statement as a signed document in JSON, which verify FILE checks")
				fs.StringVar(&o.Format, "format", "", "output `format` for another system: focus, focus-1.2 or impact-framework")
			}, answer: (*question).statement,
		}, {
			name: "idle", reach: chargeReach, help: "energy, GPU hours and money of GPUs that pods and units hold but do not use",
			extra: func(fs *flag.FlagSet, o *options) {
				ofMonth(fs, o)
				by(fs, o, "namespace")
				money(fs, o)
			}, answer: (*question).idle,
		}, {
			name: "capacity", reach: clusterReach, details: true, help: "GPUs by model and state on each day and now, and the GPU hours of pending pods; or boards by age, or failures", since: capacityDays,
			extra: func(fs *flag.FlagSet, o *options) {
				fs.Func("month", "`month` in UTC such as 2026-10; without --month, the time range ends now", o.Month.set)
				fs.BoolVar(&o.Age, "age", false, "count boards, and lost or replaced boards, by their age since the purchase in --assets, or since their first hour")
				fs.BoolVar(&o.Failures, "failures", false, "count boards that failed, by model, chassis slot and age")
			}, answer: (*question).capacity,
		}, {
			name: "moves", reach: clusterReach, details: true, help: "boards that arrived, left, returned or were swapped", since: 7 * day, extra: rma, answer: (*question).moves,
		}, {
			name: "missing", reach: clusterReach, details: true, help: "boards without a place, and how long they have been missing", extra: rma, answer: (*question).missing,
		}, {
			name: "suspect", reach: clusterReach, details: true, argument: "SERIAL…", several: true, help: "whether the faults of a board follow the board, its slot or its node", answer: (*question).suspect,
		}, {
			name: "errors", reach: clusterReach, details: true, argument: "SERIAL…", several: true, optional: true, help: "errors of boards: memory, links, reduced clocks, spare rows, required action; the worst boards first",
			extra: selected, answer: (*question).errors,
		}, {
			name: "verify", reach: clusterReach, argument: "STATEMENT.JSON", optional: true, help: "check that a month has no missing hours, and that its charges match the energy of its boards; or check a signed statement", samples: true,
			document: (*options).verifyDocument,
			extra:    verified, answer: (*question).verify,
		}, {
			name: "hours", reach: clusterReach, help: "filed, accepted, corrected, pruned and missing hours, with the command that files them", extra: ofMonth, answer: (*question).hours,
		}, {
			name: "report", reach: clusterReach, argument: "SERIAL…", several: true, help: "everything about a board on one page, which can be attached to an RMA", extra: rma, pages: (*question).report,
		},
	}
}

// Flags returns the flag sets of all questions, by name.
func Flags() map[string]*flag.FlagSet {
	all := make(map[string]*flag.FlagSet)
	for _, c := range commands() {
		all[c.name], _ = c.flags()
	}
	return all
}

const completion = "completion"

// filing contains the commands of gpuledger-archive that are not questions.
var filing = []string{"accept", "doctor", "once", "prune", "rename-cluster", "run", "schema", "serve"}

func names() []string {
	all := append(slices.Clone(filing), completion)
	for _, c := range commands() {
		all = append(all, c.name)
	}
	slices.Sort(all)
	return all
}

// Answers reports whether [Run] handles a command. [Run] handles questions, completion and unknown commands.
func Answers(command string) bool { return !slices.Contains(filing, command) }

func find(name string) *command {
	for _, c := range commands() {
		if c.name == name {
			return &c
		}
	}
	return nil
}

// These are the exit statuses.
const (
	ok      = 0
	failed  = 1
	invalid = 2
)

// Run answers a question and returns the exit status. The status is 2 for an unknown command or invalid flags. It is 1
// for an unknown name or another error.
func Run(ctx context.Context, args []string, t Terminal, now time.Time) int {
	if args[0] == completion {
		err := Completion(t.Out, strings.Join(args[1:], " "), strings.Replace(t.Program, " ", "-", 1))
		if err != nil {
			fmt.Fprintf(t.Err, "%s: %v\n", t.Program, oneLine(err))
			return invalid
		}
		return ok
	}
	c := find(args[0])
	if c == nil {
		fmt.Fprintf(t.Err, "%s: %s\n", t.Program, unknownCommand(args[0]))
		Usage(t.Err, t.Program)
		return invalid
	}
	o, err := c.parse(args[1:], t.In)
	switch {
	case errors.Is(err, flag.ErrHelp):
		c.usage(t)
		return ok
	case err != nil:
		fmt.Fprintf(t.Err, "%s %s: %v\n", t.Program, c.name, oneLine(err))
		return invalid
	}
	err = c.run(ctx, o, t, now)
	switch {
	case err == nil:
		return ok
	case errors.Is(err, store.ErrIncomplete):
		err = fmt.Errorf("%w: repair the store and repeat the command, or read an archive with --books", err)
	case errors.Is(err, store.ErrUnreachable):
		err = fmt.Errorf("%w, or read an archive with --books", err)
	case errors.Is(err, errFailed):
		return failed
	}
	fmt.Fprintf(t.Err, "%s %s: %v\n", t.Program, c.name, oneLine(err))
	return failed
}

func (c *command) run(ctx context.Context, o *options, t Terminal, now time.Time) (err error) {
	if c.document != nil && len(o.names) > 0 {
		return c.document(o, t)
	}
	progress, hide := t.slowProgress()
	defer hide()
	source, err := c.open(ctx, o, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	q := &question{options: *o, source: newReader(source), now: now.UTC(), progress: progress}
	r, err := c.reply(ctx, q)
	if err != nil {
		return err
	}
	hide()
	if o.Sign != "" {
		return q.sign(ctx, t, r.Answer)
	}
	if err := o.write(t, r); err != nil {
		return err
	}
	if r.Failed {
		return errFailed
	}
	return nil
}

func (c *command) open(ctx context.Context, o *options, progress func(string)) (books.Source, error) {
	if c.samples {
		if o.StoreRead == "rules" && o.Books == "" && !o.Prove {
			return nil, errRules
		}
		o.StoreRead = "samples"
	}
	return o.open(ctx, progress)
}

func (c *command) reply(ctx context.Context, q *question) (*Reply, error) {
	r := &Reply{Style: print.Style{Zone: q.zone}}
	var err error
	if c.pages != nil {
		r.Pages, err = c.pages(q, ctx)
	} else {
		r.Answer, err = c.noticed(ctx, q)
		r.Answer = distinct(r.Answer)
	}
	r.Failed = q.failed
	return r, err
}

func (c *command) noticed(ctx context.Context, q *question) (print.Answer, error) {
	a, err := c.answer(q, ctx)
	if err != nil {
		return a, err
	}
	a.Notices = append(a.Notices, q.refused()...)
	if c.details {
		notices, err := q.pruned(ctx, q.period())
		if err != nil {
			return a, err
		}
		a.Notices = append(a.Notices, notices...)
	}
	return a, nil
}

// CSV cannot contain notices, so they are written to standard error.
func (o *options) write(t Terminal, r *Reply) error {
	r.Style.Colour = t.Colour
	if r.Pages != nil {
		return print.Pages(t.Out, o.Output, r.Pages, r.Style)
	}
	a := r.Answer
	if o.Format != "" && o.Output == "text" {
		o.Output = "csv" // the formats of other systems define their own tables
	}
	if o.Output == "csv" {
		for _, notice := range a.Notices {
			fmt.Fprintln(t.Err, "! "+labelvalue.Printable(notice))
		}
	}
	return a.Write(t.Out, o.Output, r.Style)
}

// errRules means that verify cannot check rules. The check would always succeed.
var errRules = errors.New("rules cannot be verified: they compute the unattributed energy as the remainder, so the sums always match. To verify, " +
	"set --store.read=samples, read an archive with --books, or set --prove to compare the rules with the samples")

// errFailed has no message of its own, because the answer explains the failure.
var errFailed = errors.New("the answer contains the reason")

func oneLine(err error) string {
	return labelvalue.Printable(strings.ReplaceAll(err.Error(), "\n", "; "))
}

func (c *command) usage(t Terminal) {
	fs, _ := c.flags()
	fmt.Fprintf(t.Out, "%s %s %s: %s\n\n", t.Program, c.name, c.argument, c.help)
	fs.SetOutput(t.Out)
	fs.PrintDefaults()
}

func unknownCommand(name string) string {
	text := fmt.Sprintf("unknown command %q: must be %s, or a question (help lists the questions)", labelvalue.Printable(name), strings.Join(filing, ", "))
	similar := slices.DeleteFunc(names(), func(known string) bool {
		return !strings.HasPrefix(known, name) && distance(name, known) > len(name)/4 // a short word is similar to many other words
	})
	if len(similar) > 0 {
		text += ": did you mean " + strings.Join(similar, ", ") + "?"
	}
	return text
}

// Usage prints a list of the questions.
func Usage(w io.Writer, program string) {
	fmt.Fprintln(w, "questions that read the archive or the store:")
	for _, c := range commands() {
		fmt.Fprintf(w, "       %-42s %s\n", strings.TrimSpace(program+" "+c.name+" "+c.argument), c.help)
	}
	fmt.Fprintf(w, "       %-42s %s\n\n", program+" completion bash|zsh|fish", "print the completion script for a shell")
}
