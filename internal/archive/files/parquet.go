package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// tags are the types of columns in Parquet: texts repeat in a dictionary, unknown times are null.
var tags = map[table.Type]string{table.Text: "dict,zstd", table.Int: "zstd", table.Time: "optional,timestamp(millisecond),zstd"}

var goTypes = map[table.Type]reflect.Type{table.Text: reflect.TypeFor[string](), table.Int: reflect.TypeFor[int64](), table.Time: reflect.TypeFor[time.Time]()}

// kinds are the physical types of columns. A damaged file can have values of other types, which the
// library reads from an invalid address.
var kinds = map[table.Type]parquet.Kind{table.Text: parquet.ByteArray, table.Int: parquet.Int64, table.Time: parquet.Int64}

// schemaOf returns the schema of a table. It is derived from a struct, because a group of columns
// would be sorted by name.
func schemaOf(t table.Table) *parquet.Schema {
	fields := make([]reflect.StructField, len(t.Columns))
	for i, c := range t.Columns {
		tag := reflect.StructTag(fmt.Sprintf("parquet:%q", c.Name+","+tags[c.Type]))
		fields[i] = reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: goTypes[c.Type], Tag: tag}
	}
	return parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface())
}

// batchSize is the number of rows that are written or read at once.
const batchSize = 100

func writeParquet(w io.Writer, t table.Table, rows [][]any) error {
	out := parquet.NewGenericWriter[any](w, schemaOf(t))
	batch, room := make([]parquet.Row, 0, batchSize), make([]parquet.Value, batchSize*len(t.Columns))
	for some := range slices.Chunk(rows, batchSize) {
		batch = batch[:0]
		for n, row := range some {
			values := room[n*len(row) : (n+1)*len(row)]
			for i, value := range row {
				values[i] = valueOf(value, i)
			}
			batch = append(batch, values)
		}
		if _, err := out.WriteRows(batch); err != nil {
			return err
		}
	}
	return out.Close()
}

func valueOf(value any, column int) parquet.Value {
	switch v := value.(type) {
	case int64:
		return parquet.Int64Value(v).Level(0, 0, column)
	case time.Time:
		if v.IsZero() {
			return parquet.NullValue().Level(0, 0, column)
		}
		return parquet.Int64Value(v.UnixMilli()).Level(0, 1, column)
	}
	return parquet.ByteArrayValue([]byte(value.(string))).Level(0, 0, column)
}

func readParquet(data []byte, t table.Table) (rows [][]any, err error) {
	defer func() { // the library panics at some damaged files
		if p := recover(); p != nil {
			rows, err = nil, fmt.Errorf("invalid Parquet file: %v", p)
		}
	}()
	opened, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	var columns []string
	for _, path := range opened.Schema().Columns() {
		columns = append(columns, path[0])
	}
	written, places := placesIn(t, columns)
	if opened.Schema().String() != schemaOf(t.Only(written)).String() {
		return nil, errColumns
	}
	in := parquet.NewGenericReader[any](opened)
	defer in.Close()
	buffer, last := make([]parquet.Row, batchSize), make([]any, len(t.Columns))
	for {
		n, err := in.ReadRows(buffer)
		for _, values := range buffer[:n] {
			row := make([]any, len(t.Columns))
			for i, place := range places {
				if place < 0 {
					row[i] = t.Columns[i].Empty()
					continue
				}
				v, as := values[place], t.Columns[i].Type
				if v.Kind() != kinds[as] && !(as == table.Time && v.IsNull()) {
					return nil, fmt.Errorf("invalid Parquet file: column %s has a value of another type", t.Columns[i].Name)
				}
				row[i] = anyOf(as, v, last[i])
			}
			last = row
			rows = append(rows, row)
		}
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// anyOf returns a value of a column. A text that the last row has, too, is not allocated again.
func anyOf(as table.Type, v parquet.Value, last any) any {
	switch {
	case as == table.Int:
		return v.Int64()
	case as == table.Time && v.IsNull():
		return time.Time{}
	case as == table.Time:
		return time.UnixMilli(v.Int64()).UTC()
	}
	if text, ok := last.(string); ok && text == string(v.ByteArray()) {
		return last
	}
	return string(v.ByteArray())
}
