package ask

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/factors"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
	"github.com/gpuledger/gpuledger/internal/archive/store"
)

type options struct {
	Books     string
	Store     store.Config
	StoreRead string
	Config    string

	OfCluster          string
	At, From, To       moment
	Since              period
	Month              month
	By                 string
	Pod, Workload      string
	Unit               string
	Team               string
	Output, Format, TZ string
	Prove, Compare     bool
	Chain              bool
	PublicKey          string
	Witness, ChainSink string
	ChainHTTP          string // file with settings for requests to Witness
	Sign               string // file with a private key
	Truth              []string
	Scrape             time.Duration // scrape interval
	Age                bool          // count boards by age
	Failures           bool          // count boards that failed
	InWarranty         bool
	Uncorrectable      bool
	Factors            factors.Files

	flags      *flag.FlagSet // contains settings for the URL in --books
	archives   []string      // all values of --books; Books contains the first value
	filing     string        // flags of the commands that the command "hours" prints
	locked     string        // notice about the commands that the command "hours" prints, or empty
	storeGiven bool          // whether --store.url was set
	since      bool          // whether Since was set
	names      []string      // names of boards, nodes or chassis
	column     string        // column with the names in the list
	list       string        // file with the list of names
	zone       *time.Location
	factors    factors.Factors
	assets     *factors.Assets
}

type moment struct{ time.Time }

func (m *moment) set(text string) error {
	for _, layout := range []string{time.DateOnly, "2006-01-02T15", "2006-01-02T15:04", "2006-01-02T15:04Z", "2006-01-02 15:04", time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			m.Time = at.UTC()
			return nil
		}
	}
	return errors.New("must be a time in UTC such as 2026-11-01 or 2026-11-01T15:30")
}

// month is a flag value. It contains the start of the month in UTC.
type month struct{ time.Time }

func (m *month) set(text string) (err error) {
	if m.Time, err = time.Parse("2006-01", text); err != nil {
		return errors.New("must be a month such as 2026-10")
	}
	return nil
}

// period is a flag value. Its unit may be d, for days.
type period struct{ time.Duration }

const day = 24 * time.Hour

func (p *period) UnmarshalText(text []byte) (err error) {
	if n, isDays := strings.CutSuffix(string(text), "d"); isDays {
		count, err := strconv.Atoi(n)
		p.Duration = time.Duration(count) * day
		if err != nil || count <= 0 || count > 36500 {
			return errors.New("must be a length of time such as 7d or 12h")
		}
		return nil
	}
	if p.Duration, err = time.ParseDuration(string(text)); err != nil || p.Duration <= 0 {
		return errors.New("must be a length of time such as 7d or 12h")
	}
	return nil
}

func (p period) MarshalText() ([]byte, error) {
	if n := p.Duration / day; n > 0 && p.Duration == n*day {
		return fmt.Appendf(nil, "%dd", n), nil
	}
	return []byte(p.String()), nil
}

// addBooks adds a value of --books. Only verify --prove uses more than one value.
func (o *options) addBooks(place string) error {
	o.archives = append(o.archives, place)
	o.Books = o.archives[0]
	return nil
}

var readings = []string{"auto", "samples", "rules"}

func (c *command) flags() (*flag.FlagSet, *options) {
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	o := &options{Since: period{cmp.Or(c.since, 90*day)}, flags: fs}
	fs.SetOutput(io.Discard) // the caller prints the error in one line
	fs.Func("books", "archive to read: a `folder`, an SQLite file, or a URL as in --to of gpuledger-archive run ("+sinks.Schemes(true)+"); without --books, the store is read", o.addBooks)
	fs.String("mysql.password-file", "", "`file` with the password for the user in --books=mysql://…")
	new(files.S3).RegisterStore(fs)
	o.Store.Register(fs)
	fs.StringVar(&o.StoreRead, "store.read", "auto", "`data` to read from the store: samples, rules (the results of dashboards/rules), or auto, which reads rules for statements of whole fleets if the store contains them, and samples otherwise")
	fs.StringVar(&o.Config, "config", "", "YAML `file` with flag values by name; default is gpuledger/config.yaml in the user's configuration folder")
	fs.StringVar(&o.OfCluster, "of-cluster", "", "`name` of the cluster to read, if there are several")
	output := "text"
	if c.pages != nil {
		output = c.formats()[0]
	}
	fs.StringVar(&o.Output, "o", output, "`format`: "+strings.Join(c.formats(), ", "))
	fs.StringVar(&o.TZ, "tz", "UTC", "time `zone` of the times in text output, such as Europe/Berlin")
	fs.StringVar(&o.Team, "team.label", "team", "pod or namespace `label` that contains the name of the team; used if charges are read from a store, without --books")
	fs.Func("from", "start `time` in UTC; default is --since before the end", o.From.set)
	fs.Func("to", "end `time` in UTC; default is now", o.To.set)
	fs.TextVar(&o.Since, "since", o.Since, "length of the `time` range to read, which ends at --to")
	fs.StringVar(&o.Factors.Assets, "assets", "", "CSV `file` with the list of assets")
	fs.StringVar(&o.Factors.Columns, "assets.columns", "", "`columns` of --assets as serial=HEADER,tag=HEADER,warranty=HEADER,order=HEADER,site=HEADER,purchased=HEADER; default recognizes exports of NetBox and ServiceNow")
	if c.several {
		fs.StringVar(&o.list, "names", "", "`file` with names, one per line, or a CSV file with a column of serial numbers; - reads standard input, both as the value of --names and as an argument")
		fs.StringVar(&o.column, "names.column", "", "`header` of the column with the names in --names; default recognizes exports of NetBox and ServiceNow")
	}
	if c.extra != nil {
		c.extra(fs, o)
	}
	return fs, o
}

func (c *command) formats() []string {
	if c.pages != nil {
		return []string{"markdown", "html"}
	}
	return print.Formats()
}

// parse accepts flags after the arguments.
func (c *command) parse(args []string, in io.Reader) (*options, error) {
	fs, o := c.flags()
	var names []string
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			break
		}
		names, args = append(names, fs.Arg(0)), fs.Args()[1:]
	}
	if err := c.exclude(fs); err != nil {
		return nil, err
	}
	if err := o.defaults(fs); err != nil {
		return nil, err
	}
	if err := c.takeNames(o, names, in); err != nil {
		return nil, err
	}
	return o, o.validate(c)
}

func (c *command) exclude(fs *flag.FlagSet) error {
	given := make(map[string]bool)
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, pair := range append([][2]string{{"month", "from"}, {"month", "to"}, {"month", "since"}, {"from", "since"}, {"at", "to"}}, c.excluded...) {
		if given[pair[0]] && given[pair[1]] {
			return fmt.Errorf("--%s and --%s select different times: set one of them", pair[0], pair[1])
		}
	}
	return nil
}

func (o *options) validate(c *command) (err error) {
	if !slices.Contains(c.formats(), o.Output) {
		return fmt.Errorf("-o %s: must be %s", o.Output, strings.Join(c.formats(), ", "))
	}
	if !slices.Contains(readings, o.StoreRead) {
		return fmt.Errorf("--store.read=%s: must be %s", o.StoreRead, strings.Join(readings, ", "))
	}
	if o.zone, err = time.LoadLocation(o.TZ); err != nil {
		return fmt.Errorf("--tz=%s: must be a time zone such as Europe/Berlin", o.TZ)
	}
	if o.Age && o.Failures {
		return errors.New("--age and --failures are different questions: set one of them")
	}
	if len(o.archives) > 1 && !o.Prove {
		return errors.New("--books is set several times: only verify --prove reads several archives")
	}
	if !o.From.IsZero() && !o.To.IsZero() && !o.From.Before(o.To.Time) {
		return fmt.Errorf("--from=%s is not before --to=%s", o.From.Format(time.RFC3339), o.To.Format(time.RFC3339))
	}
	if !o.At.IsZero() && !o.From.Before(o.At.Time) {
		return fmt.Errorf("--from=%s is not before --at=%s", o.From.Format(time.RFC3339), o.At.Format(time.RFC3339))
	}
	if o.factors, err = o.Factors.Read(); err != nil {
		return settingsError{err}
	}
	o.assets = o.factors.Assets
	if o.InWarranty && o.Factors.Assets == "" {
		return errors.New("--in-warranty needs the list of assets with their warranty: set --assets")
	}
	return nil
}

func variable(name string) string {
	return "GPULEDGER_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(name))
}

// inConfig contains the flags that environment variables and the configuration file can set. These flags select the
// source and the form of the answers.
var inConfig = []string{
	"books", "s3.endpoint", "s3.region", "s3.lookup", "mysql.password-file", "store.url", "store.type", "store.http.config.file", "store.timeout", "store.read", "gpu.max-power", "cluster", "of-cluster", "team.label", "tz",
	"assets", "assets.columns", "prices", "carbon", "pue", "rma",
}

// defaults sets the flags that the command line does not contain. Environment variables take precedence over the
// configuration file.
func (o *options) defaults(fs *flag.FlagSet) error {
	given := make(map[string]bool)
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	o.since = given["since"]
	set := func(name, value, from string) error {
		if fs.Lookup(name) == nil || given[name] || value == "" {
			return nil
		}
		given[name] = true
		if err := fs.Set(name, value); err != nil {
			return fmt.Errorf("%s: %s: %w", from, name, err)
		}
		return nil
	}
	if given["store.url"] && !given["books"] && !o.Prove {
		given["books"] = true // a store on the command line takes precedence over an archive from the environment
	}
	for _, name := range inConfig {
		if err := set(name, os.Getenv(variable(name)), "$"+variable(name)); err != nil {
			return err
		}
	}
	path, values, err := o.readConfig()
	for _, name := range inConfig {
		if err == nil {
			err = set(name, values[name], path)
		}
	}
	o.storeGiven = given["store.url"]
	return err
}

func (o *options) readConfig() (path string, values map[string]string, err error) {
	path = cmp.Or(o.Config, os.Getenv("GPULEDGER_CONFIG"))
	needed := path != ""
	if !needed {
		dir, err := os.UserConfigDir()
		if err != nil {
			return "", nil, nil // without a home folder there is no configuration file
		}
		path = filepath.Join(dir, "gpuledger", "config.yaml")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		if !needed && errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return path, nil, err
	}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return path, nil, fmt.Errorf("%s: must have lines such as `store.url: http://127.0.0.1:9090`: %w", path, err)
	}
	for name := range values {
		if !slices.Contains(inConfig, name) {
			return path, nil, fmt.Errorf("%s: unknown name %q: must be one of %s", path, name, strings.Join(inConfig, ", "))
		}
	}
	return path, values, nil
}

func (o *options) open(ctx context.Context, progress func(string)) (books.Source, error) {
	switch {
	case o.Books == "":
		return books.OpenStore(o.Store, books.Reading{Read: o.StoreRead, Team: o.Team, Progress: progress})
	case sinks.IsURL(o.Books):
		place, err := sinks.Parse("--books", o.Books, o.flags)
		if err != nil {
			return nil, err
		}
		source, err := place.Books(ctx)
		if err != nil && place.Folder != "" {
			err = fmt.Errorf("%s: %w", place.Label, err)
		}
		return source, err
	case isFile(o.Books):
		return books.OpenSQLite(ctx, o.Books)
	}
	source, err := books.OpenFolder(ctx, o.Books)
	switch {
	case err != nil && strings.ContainsRune(o.Books, '@'): // the text may be a URL with a password but without ://
		return nil, errors.New("--books names no archive: must be a folder, an SQLite file, or the URL of a bucket or database")
	case err != nil:
		return nil, fmt.Errorf("--books=%s: %w", o.Books, err)
	}
	return source, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
