package archive

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/archive/moves"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/archive/web"
	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/serve"
)

// Config contains the settings from the command line.
type Config struct {
	Log   cli.LogConfig
	Serve serve.Config
	Store store.Config
	// Events configures the receiver of events, for the command run.
	Events events.Config
	// Options contains the sinks that have their own flags. urls contains the sinks in --to. places contains the sinks
	// of both kinds.
	sinks.Options
	urls   []string
	places []sinks.Place
	// unset is true if no flag sets a sink. SQLite is then used.
	unset bool
	// shown contains the flags that a command needs to write hours to the same sinks. They are shell words without
	// secrets.
	shown string
	// Web configures the pages, for the commands run and serve.
	Web web.Config
	// Moves configures the receivers of the events of boards, for the command run.
	Moves moves.Config
	// Chain configures the signatures and checkpoints of the hash chain.
	Chain chain.Config
	// From is the first hour; zero means the last full hour. Until is the end of the last hour; zero means now.
	From, Until moment
	to          moment
	// Again is set if archived hours are read and written again.
	Again bool
	// CloseAfter is the time from the end of a month until the month is closed. The rows of a closed month no longer
	// change. Separate rows correct them. 0 means that months are never closed.
	CloseAfter time.Duration
	// Team is the name of the label that contains the team. It is a label of pods or namespaces.
	Team string
	// Accept is the argument of the command "accept": a cluster. Its hours are archived although samples are missing.
	// Reason is stored with these hours.
	Accept, Reason string

	// Run is set by the command "run", which archives each hour after its end.
	Run bool
	// ServeOnly is set by the command "serve". This command serves the pages and archives no hours.
	ServeOnly bool
	// Progress shows the progress of a long back-fill. An empty text hides it. Nil means that no progress is shown.
	Progress func(text string)
	// Prune is set by the command "prune". This command deletes the hours before Before. If DryRun is set, it only
	// prints these hours.
	Prune  bool
	Before moment
	DryRun bool
	// RenameFrom and RenameTo are the arguments of the command "rename-cluster".
	RenameFrom, RenameTo string
	// Schema is the kind of database for the command "schema". This command prints the SQL statements that create the
	// tables.
	Schema  string
	Version bool
}

type moment struct{ time.Time }

func (m *moment) UnmarshalText(text []byte) error {
	for _, layout := range []string{time.DateOnly, "2006-01-02T15", "2006-01-02T15:04Z", time.RFC3339} {
		if at, err := time.Parse(layout, string(text)); err == nil {
			m.Time = at.UTC()
			return nil
		}
	}
	return errors.New("must be a time in UTC such as 2026-11-01 or 2026-11-01T15")
}

func (m moment) MarshalText() ([]byte, error) {
	if m.IsZero() {
		return nil, nil
	}
	return []byte(m.Format(time.RFC3339)), nil
}

// Flags returns the flags of gpuledger-archive, and the configuration that they set.
func Flags() (*flag.FlagSet, *Config) {
	c := &Config{}
	fs := flag.NewFlagSet("gpuledger-archive", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the caller prints the error in one line
	c.Log.Register(fs)
	c.Serve.Register(fs, ":9841")
	c.Web.Register(fs)
	c.Store.Register(fs)
	c.Register(fs)
	c.Events.Register(fs)
	c.Moves.Register(fs)
	c.Chain.Register(fs)
	fs.TextVar(&c.From, "from", moment{}, "first `hour` to file, in UTC, such as 2026-11-01 or 2026-11-01T15; the default is the last full hour, or 48 hours before now for run")
	fs.TextVar(&c.Until, "until", moment{}, "`end` of the last hour to file; default is now; not for run")
	fs.BoolVar(&c.Again, "again", false, "also replace hours that are already filed; not for run, because run reads the last 48 hours again each day")
	fs.DurationVar(&c.CloseAfter, "month.close-after", 10*24*time.Hour, "`time` from the end of a month until it is closed; hours of a closed month are not replaced, but corrected by separate rows; 0 never closes a month")
	fs.StringVar(&c.Team, "team.label", "team", "pod or namespace `label` that contains the name of the team, from gpuledger_pod_labels or kube_namespace_labels")
	fs.Func("to", "`URL` to file the tables in, repeatable; each parameter of the URL sets a flag such as --s3.format for this sink only. Examples: "+sinks.Help()+". With accept, --to can also be the end of the last hour, such as 2026-11-01T15", c.setTo)
	fs.StringVar(&c.Reason, "reason", "", "`text` with the reason, which the command accept stores with the hours")
	fs.TextVar(&c.Before, "before", moment{}, "`date` before which prune deletes hours, in UTC, such as 2025-01-01; a date within a month means the start of the month")
	fs.BoolVar(&c.DryRun, "dry-run", false, "let prune print which hours it would delete, without deleting them")
	fs.BoolVar(&c.Version, "version", false, "print the version and exit")
	return fs, c
}

// command returns the arguments after the command.
func (c *Config) command(args []string) ([]string, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return args, nil
	}
	switch args[0] {
	case "once":
	case "run":
		c.Run = true
	case "serve":
		c.ServeOnly, c.Web.Pages = true, true
	case "prune":
		c.Prune = true
	case "accept":
		return c.acceptCommand(args[1:])
	case "rename-cluster":
		return c.renameCommand(args[1:])
	case "schema":
		return c.schemaCommand(args[1:]), nil
	default:
		return nil, fmt.Errorf("unknown command %q: must be run, once, serve, accept, prune, rename-cluster or schema", args[0])
	}
	return args[1:], nil
}

func named(args []string, n int) bool {
	return len(args) >= n && !slices.ContainsFunc(args[:n], func(arg string) bool { return strings.HasPrefix(arg, "-") })
}

func (c *Config) acceptCommand(args []string) ([]string, error) {
	if !named(args, 1) {
		return nil, errors.New("accept: must be followed by the name of a cluster")
	}
	if err := table.CheckCluster(args[0]); err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	c.Accept = args[0]
	return args[1:], nil
}

func (c *Config) renameCommand(args []string) ([]string, error) {
	if !named(args, 2) {
		return nil, errors.New("rename-cluster: must be followed by the old and the new name of a cluster")
	}
	c.RenameFrom, c.RenameTo = args[0], args[1]
	if err := table.CheckCluster(c.RenameTo); err != nil || c.RenameFrom == c.RenameTo {
		return nil, errors.Join(errors.New("rename-cluster: the new name must be valid and differ from the old name"), err)
	}
	return args[2:], nil
}

func (c *Config) schemaCommand(args []string) []string {
	c.Schema = database.Postgres.Name
	if len(args) == 0 || database.Named(args[0]) == nil {
		return args
	}
	c.Schema = args[0]
	return args[1:]
}

// Parse parses the command line, without the program's name.
func Parse(args []string) (Config, error) {
	fs, c := Flags()
	args, err := c.command(args)
	if err != nil {
		return *c, err
	}
	if err := fs.Parse(args); err != nil {
		return *c, err
	}
	if fs.NArg() > 0 {
		return *c, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if err := c.accept(); err != nil {
		return *c, err
	}
	if !c.From.IsZero() && !c.Until.IsZero() && !c.From.Before(c.Until.Time) {
		return *c, fmt.Errorf("--from=%s is not before --until=%s", c.From.Format(time.RFC3339), c.Until.Format(time.RFC3339))
	}
	if err := c.locate(fs); err != nil {
		return *c, err
	}
	c.shown = c.filing(fs)
	return *c, errors.Join(c.Log.Validate(), c.Serve.Validate(), c.Events.Validate(), c.Moves.Validate(), c.Chain.Validate(), c.validate(), c.Serve.ValidateKey())
}

// setTo sets a value of the flag --to. If the value begins with a digit, it is the end of the period in the command
// "accept". Any other value is the URL of a sink.
func (c *Config) setTo(text string) error {
	if text == "" || text[0] < '0' || text[0] > '9' {
		c.urls = append(c.urls, text)
		return nil
	}
	return c.to.UnmarshalText([]byte(text))
}

// The default sink of the command run is an SQLite file.
func (c *Config) locate(fs *flag.FlagSet) (err error) {
	if c.places, err = c.Places(fs, c.urls); err != nil || len(c.places) > 0 {
		return err
	}
	c.unset = true
	switch {
	case c.ServeOnly && c.Web.Settings != "": // the file in --web.pages.config names the databases and folders
	case c.ServeOnly:
		err = errors.New("serve has nothing to read: set --web.pages.config, or " + strings.Join(sinks.Flags(true), " or "))
	case c.Run:
		directory, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":") // systemd can set several folders
		c.SQLite = filepath.Join(directory, "gpuledger.db")
		c.places, err = c.Places(fs, nil)
	case c.Schema == "" && !c.Version:
		err = errors.New("no sink is set: set --to, or " + strings.Join(sinks.Flags(false), " or "))
	}
	return err
}
