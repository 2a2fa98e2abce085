package archive

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/cli"
)

// Config is the configuration from the flags.
type Config struct {
	Log   cli.LogConfig
	Store store.Config
	// Folder and Postgres are the places of the archive: a folder, a database, or both.
	Folder, Postgres string
	// Formats are the formats of files in the folder.
	Formats cli.List
	// From is the first hour, zero for the last full one. Until is the end of the last hour,
	// zero for now.
	From, Until moment
	// Again also replaces hours that are filed.
	Again bool
	// CloseAfter is the time after the end of a month at which it is closed; zero for never. The
	// hours of a closed month are corrected by separate rows.
	CloseAfter time.Duration
	// Team is the label of pods or namespaces with the name of a team.
	Team string
	// AcceptGaps files hours in which nodes are silent.
	AcceptGaps bool

	// Schema is set by the command "schema": print the statements that create the tables.
	Schema  bool
	Version bool
}

// moment is a time in a flag.
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

// Flags returns the flag set of gpuledger-archive, bound to a configuration with the defaults.
func Flags() (*flag.FlagSet, *Config) {
	c := &Config{Formats: cli.List{"csv"}}
	fs := flag.NewFlagSet("gpuledger-archive", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // the caller prints one line
	c.Log.Register(fs)
	c.Store.Register(fs)
	fs.StringVar(&c.Folder, "folder", "", "`folder` to file the tables in")
	fs.TextVar(&c.Formats, "folder.format", c.Formats, "comma-separated `formats` of the files in the folder: "+strings.Join(files.Formats(), ", "))
	fs.StringVar(&c.Postgres, "postgres.url", "", "`URL` of a PostgreSQL database to file the tables in, such as postgres://archive@db.example.com/gpuledger; libpq's variables, such as PGPASSFILE, are read")
	fs.TextVar(&c.From, "from", moment{}, "first `hour` to file, in UTC, such as 2026-11-01 or 2026-11-01T15; default is the last full hour")
	fs.TextVar(&c.Until, "until", moment{}, "`end` of the last hour to file; default is now")
	fs.BoolVar(&c.Again, "again", false, "also replace hours that are already filed")
	fs.DurationVar(&c.CloseAfter, "month.close-after", 10*24*time.Hour, "`time` after the end of a month from which its hours are not replaced, but corrected by separate rows; 0 never closes a month")
	fs.StringVar(&c.Team, "team.label", "team", "`label` of pods or namespaces with the name of their team, from gpuledger_pod_labels or kube_namespace_labels")
	fs.BoolVar(&c.AcceptGaps, "accept-gaps", false, "file hours although more than 5 % of the nodes have no samples and no failed scrapes")
	fs.BoolVar(&c.Version, "version", false, "print the version and exit")
	return fs, c
}

// Parse parses the command line, without the program's name.
func Parse(args []string) (Config, error) {
	fs, c := Flags()
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "once":
		case "schema":
			c.Schema = true
		default:
			return *c, fmt.Errorf("unknown command %q: must be once or schema", args[0])
		}
		args = args[1:]
	}
	if err := fs.Parse(args); err != nil {
		return *c, err
	}
	if fs.NArg() > 0 {
		return *c, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if !c.From.IsZero() && !c.Until.IsZero() && !c.From.Before(c.Until.Time) {
		return *c, fmt.Errorf("--from=%s is not before --until=%s", c.From.Format(time.RFC3339), c.Until.Format(time.RFC3339))
	}
	if !slices.ContainsFunc(destinations, func(d destination) bool { return d.isSet(c) }) && !c.Schema && !c.Version {
		return *c, errors.New("nowhere to file: set --" + strings.Join(flags(destinations), " or --"))
	}
	return *c, c.Log.Validate()
}

// flags returns the flags that turn sinks on.
func flags(all []destination) (names []string) {
	for _, d := range all {
		names = append(names, d.flag)
	}
	return names
}
