package files

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Reader reads the files of an archive. It needs no lock: a file is replaced at once.
type Reader struct {
	place  place
	format string
}

// place is a folder or a bucket with the files of an archive.
type place interface {
	// hours returns the names of the files of filed hours, in any format.
	hours(ctx context.Context) ([]string, error)
	// open opens a file. A missing file is an [fs.ErrNotExist].
	open(ctx context.Context, name string) (content, error)
	name() string
}

// content is the content of a file with its size in bytes.
type content interface {
	io.Reader
	io.ReaderAt
	io.Closer
	Size() (int64, error)
}

// Day is a day in UTC of a cluster.
type Day struct {
	Cluster string
	Date    time.Time
}

// OpenReader opens an archive in a local folder for reading: Parquet files if there are any, else CSV.
func OpenReader(ctx context.Context, path string) (*Reader, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return newReader(ctx, localPlace{path})
}

func newReader(ctx context.Context, p place) (*Reader, error) {
	names, err := p.hours(ctx)
	if err != nil {
		return nil, err
	}
	for _, format := range []string{"parquet", "csv"} {
		if slices.ContainsFunc(names, func(name string) bool { return path.Ext(name) == "."+format }) {
			return &Reader{p, format}, nil
		}
	}
	return nil, fmt.Errorf("%s has no files of the archive: it must contain %s/cluster=…/date=…", p.name(), table.Hours.Name)
}

// localPlace is a folder.
type localPlace struct{ path string }

func (l localPlace) name() string { return l.path }

func (l localPlace) hours(context.Context) ([]string, error) {
	return filepath.Glob(filepath.Join(escaped(l.path), table.Hours.Name, "cluster=*", "date=*", table.Hours.Name+".*"))
}

func (l localPlace) open(_ context.Context, name string) (content, error) {
	file, err := os.Open(filepath.Join(l.path, name))
	if err != nil {
		return nil, err
	}
	return localFile{file}, nil
}

type localFile struct{ *os.File }

// Size returns the size of the file.
func (f localFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// escaped returns a path without the special characters of patterns.
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// Days returns the days that have a file of filed hours, in the order of time.
func (r *Reader) Days(ctx context.Context) (days []Day, err error) {
	names, err := r.place.hours(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if path.Ext(name) != "."+r.format {
			continue
		}
		day, err := dayOf(name)
		if err != nil {
			return nil, err
		}
		days = append(days, day)
	}
	slices.SortFunc(days, func(a, b Day) int {
		if c := a.Date.Compare(b.Date); c != 0 {
			return c
		}
		return strings.Compare(a.Cluster, b.Cluster)
	})
	return days, nil
}

func dayOf(name string) (day Day, err error) {
	date := filepath.Dir(name)
	cluster := filepath.Base(filepath.Dir(date))
	if day.Cluster, err = url.PathUnescape(strings.TrimPrefix(cluster, "cluster=")); err != nil {
		return day, fmt.Errorf("%s: %w", name, err)
	}
	if day.Date, err = time.Parse(time.DateOnly, strings.TrimPrefix(filepath.Base(date), "date=")); err != nil {
		return day, fmt.Errorf("%s: %w", name, err)
	}
	return day, nil
}

// Read calls each for every row of a day, with the values of some columns. The row is valid during
// the call. A table without a file on that day has no rows.
func (r *Reader) Read(ctx context.Context, t table.Table, day Day, columns []string, each func(row []table.Cell)) error {
	name := file(format{name: r.format}, t, day.Cluster, day.Date)
	in, err := r.place.open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	scan := scanCSV
	if r.format == "parquet" {
		scan = scanParquet
	}
	if err := scan(in, t, columns, each); err != nil {
		return fmt.Errorf("%s/%s: %w", r.place.name(), name, err)
	}
	return nil
}

// errMissing is the error of a file without a column that this version reads.
var errMissing = errors.New("the file has no such column: it was written by another version of gpuledger-archive")

func scanCSV(file content, t table.Table, columns []string, each func([]table.Cell)) error {
	in := csv.NewReader(file)
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return err
	}
	types, places := make([]table.Column, len(columns)), make([]int, len(columns))
	for i, name := range columns {
		if types[i], err = t.Column(name); err != nil {
			return err
		}
		if places[i] = slices.Index(head, name); places[i] < 0 && !types[i].Added() {
			return fmt.Errorf("column %s: %w", name, errMissing)
		}
	}
	row, texts := make([]table.Cell, len(columns)), make(map[string]string)
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i, c := range types {
			if places[i] < 0 {
				continue
			}
			if row[i], err = c.ParseCell(fields[places[i]]); err != nil {
				line, _ := in.FieldPos(places[i])
				return fmt.Errorf("line %d, column %s: %w", line, c.Name, err)
			}
			row[i].Text = once(texts, row[i].Text)
		}
		each(row)
	}
}

// once returns a text that is equal to another one, and shares memory with earlier ones. A line of a
// file is not kept in memory because of one of its fields.
func once(known map[string]string, text string) string {
	if same, ok := known[text]; ok {
		return same
	}
	text = strings.Clone(text)
	known[text] = text
	return text
}

func scanParquet(file content, t table.Table, columns []string, each func([]table.Cell)) (err error) {
	defer func() { // the library panics at some damaged files
		if p := recover(); p != nil {
			err = fmt.Errorf("invalid Parquet file: %v", p)
		}
	}()
	size, err := file.Size()
	if err != nil {
		return err
	}
	opened, err := parquet.OpenFile(file, size)
	if err != nil {
		return err
	}
	for _, group := range opened.RowGroups() {
		if err := scanGroup(opened.Schema(), group, t, columns, each); err != nil {
			return err
		}
	}
	return nil
}

func scanGroup(schema *parquet.Schema, group parquet.RowGroup, t table.Table, columns []string, each func([]table.Cell)) error {
	all := make([]*parquetColumn, len(columns))
	for i, name := range columns {
		of, err := t.Column(name)
		if err != nil {
			return err
		}
		leaf, ok := schema.Lookup(name)
		if !ok && of.Added() {
			continue
		}
		if !ok {
			return fmt.Errorf("column %s: %w", name, errMissing)
		}
		all[i] = &parquetColumn{
			Column: of, pages: group.ColumnChunks()[leaf.ColumnIndex].Pages(), buffer: make([]parquet.Value, 1024), texts: make(map[string]string),
		}
		defer all[i].pages.Close()
	}
	row := make([]table.Cell, len(columns))
	for range group.NumRows() {
		for i, c := range all {
			if c == nil {
				continue // an added column
			}
			var err error
			if row[i], err = c.next(); err != nil {
				return fmt.Errorf("column %s: %w", c.Name, err)
			}
		}
		each(row)
	}
	return nil
}

// parquetColumn reads the values of a column in turn.
type parquetColumn struct {
	table.Column
	pages  parquet.Pages
	values parquet.ValueReader // of the page, nil before the first
	buffer []parquet.Value
	begin  int
	filled int
	texts  map[string]string
	last   string
}

func (c *parquetColumn) next() (table.Cell, error) {
	for c.begin == c.filled {
		if err := c.fill(); err != nil {
			return table.Cell{}, err
		}
	}
	v := c.buffer[c.begin]
	c.begin++
	if v.Kind() != kinds[c.Type] && !(c.Type == table.Time && v.IsNull()) {
		return table.Cell{}, errors.New("invalid Parquet file: a value has another type")
	}
	switch {
	case c.Type != table.Text:
		if v.IsNull() {
			return table.Cell{}, nil
		}
		return table.Cell{Int: v.Int64()}, nil
	case string(v.ByteArray()) != c.last:
		text, ok := c.texts[string(v.ByteArray())]
		if !ok {
			text = once(c.texts, string(v.ByteArray()))
		}
		c.last = text
	}
	return table.Cell{Text: c.last}, nil
}

// fill reads the next values, of the next page at the end of one.
func (c *parquetColumn) fill() error {
	c.begin, c.filled = 0, 0
	if c.values == nil {
		page, err := c.pages.ReadPage()
		if err != nil {
			return err
		}
		c.values = page.Values()
	}
	n, err := c.values.ReadValues(c.buffer)
	c.filled = n
	if errors.Is(err, io.EOF) {
		c.values, err = nil, nil
	}
	return err
}
