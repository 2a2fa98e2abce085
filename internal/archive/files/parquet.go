package files

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// In Parquet, strings have a dictionary, because many of them repeat. Unknown times and integers are null.
var tags = map[table.Type]string{table.Text: "dict,zstd", table.Int: "zstd", table.OptionalInt: "optional,zstd", table.Time: "optional,timestamp(millisecond),zstd"}

var goTypes = map[table.Type]reflect.Type{table.Text: reflect.TypeFor[string](), table.Int: reflect.TypeFor[int64](), table.OptionalInt: reflect.TypeFor[int64](), table.Time: reflect.TypeFor[time.Time]()}

// kinds contains the physical types of columns. A damaged file may have other types, and the library would then read
// values from an invalid address. Therefore the types are checked.
var kinds = map[table.Type]parquet.Kind{table.Text: parquet.ByteArray, table.Int: parquet.Int64, table.OptionalInt: parquet.Int64, table.Time: parquet.Int64}

// schemaOf builds the schema from a struct, because a struct keeps the order of its columns. The library sorts the
// columns of a group by name.
func schemaOf(t table.Table) *parquet.Schema {
	fields := make([]reflect.StructField, len(t.Columns))
	for i, c := range t.Columns {
		tag := reflect.StructTag(fmt.Sprintf("parquet:%q", c.Name+","+tags[c.Type]))
		fields[i] = reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: goTypes[c.Type], Tag: tag}
	}
	return parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface())
}

const batchSize = 100

func writeParquet(w io.Writer, t table.Table, rows [][]any) error {
	out := parquet.NewGenericWriter[any](w, schemaOf(t))
	batch, room := make([]parquet.Row, 0, batchSize), make([]parquet.Value, batchSize*len(t.Columns))
	for some := range slices.Chunk(rows, batchSize) {
		batch = batch[:0]
		for n, row := range some {
			values := room[n*len(row) : (n+1)*len(row)]
			for i, value := range row {
				values[i] = valueOf(value, i, t.Columns[i].Type)
			}
			batch = append(batch, values)
		}
		if _, err := out.WriteRows(batch); err != nil {
			return err
		}
	}
	return out.Close()
}

func valueOf(value any, column int, as table.Type) parquet.Value {
	switch v := value.(type) {
	case nil:
		return parquet.NullValue().Level(0, 0, column)
	case int64:
		if as == table.OptionalInt {
			return parquet.Int64Value(v).Level(0, 1, column)
		}
		return parquet.Int64Value(v).Level(0, 0, column)
	case time.Time:
		if v.IsZero() {
			return parquet.NullValue().Level(0, 0, column)
		}
		return parquet.Int64Value(v.UnixMilli()).Level(0, 1, column)
	}
	return parquet.ByteArrayValue([]byte(value.(string))).Level(0, 0, column)
}

type parquetFile struct {
	*parquet.File
	table table.Table
}

func openParquet(in content, t table.Table) (d decoder, err error) {
	defer recovered(&err)
	size, err := in.Size()
	if err != nil {
		return nil, err
	}
	opened, err := parquet.OpenFile(in, size)
	return &parquetFile{opened, t}, err
}

// recovered converts a panic to an error. The library panics on some damaged files.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("invalid Parquet file: %v", p)
	}
}

func (f *parquetFile) current() bool {
	var head []string
	for _, path := range f.Schema().Columns() {
		head = append(head, path[0])
	}
	return f.Schema().String() == schemaOf(written(f.table, head)).String()
}

func (f *parquetFile) scan(columns []string, each func([]table.Cell)) (err error) {
	defer recovered(&err)
	for _, group := range f.RowGroups() {
		if err := f.scanGroup(group, columns, each); err != nil {
			return err
		}
	}
	return nil
}

func (f *parquetFile) scanGroup(group parquet.RowGroup, columns []string, each func([]table.Cell)) error {
	all := make([]*parquetColumn, len(columns))
	for i, name := range columns {
		c, err := f.column(group, name)
		if err != nil {
			return err
		}
		if c != nil {
			defer c.pages.Close()
		}
		all[i] = c
	}
	row := make([]table.Cell, len(columns))
	for range group.NumRows() {
		for i, c := range all {
			if c == nil {
				continue // a later version added this column
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

// column returns nil if the file is older than the column.
func (f *parquetFile) column(group parquet.RowGroup, name string) (*parquetColumn, error) {
	of, err := f.table.Column(name)
	if err != nil {
		return nil, err
	}
	leaf, ok := f.Schema().Lookup(name)
	switch {
	case !ok && of.Added():
		return nil, nil
	case !ok:
		return nil, fmt.Errorf("column %s: %w", name, errMissing)
	}
	return &parquetColumn{
		Column: of, pages: group.ColumnChunks()[leaf.ColumnIndex].Pages(), buffer: make([]parquet.Value, 1024), texts: make(map[string]string),
	}, nil
}

type parquetColumn struct {
	table.Column
	pages  parquet.Pages
	values parquet.ValueReader // values of the current page; nil before the first page
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
	if v.Kind() != kinds[c.Type] && !(v.IsNull() && (c.Type == table.Time || c.Type == table.OptionalInt)) {
		return table.Cell{}, errors.New("invalid Parquet file: a value has another type")
	}
	switch {
	case c.Type != table.Text:
		if v.IsNull() {
			return table.Cell{}, nil
		}
		return table.Cell{Int: v.Int64(), Known: true}, nil
	case string(v.ByteArray()) != c.last:
		text, ok := c.texts[string(v.ByteArray())]
		if !ok {
			text = string(v.ByteArray())
			c.texts[text] = text
		}
		c.last = text
	}
	return table.Cell{Text: c.last}, nil
}

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
