package table

import (
	"encoding/json"
	"time"
)

// AppendJSON appends a row as a line of JSON. The object contains the name of the table and the columns. It also
// contains the revision of the hour, unless the revision is 0. Unknown times and integers are null.
func (t Table) AppendJSON(b []byte, revision int64, row []any) []byte {
	b = append(b, '{')
	b = appendField(b, "table", t.Name)
	if revision > 0 {
		b = appendField(append(b, ','), "revision", revision)
	}
	for i, value := range row {
		name := t.Columns[i].Name
		if name == "revision" {
			continue
		}
		if at, ok := value.(time.Time); ok {
			if value = nil; !at.IsZero() {
				value = Format(at)
			}
		}
		b = appendField(append(b, ','), name, value)
	}
	return append(b, '}', '\n')
}

func appendField(b []byte, name string, value any) []byte {
	text, _ := json.Marshal(value) // a string, int64 or nil is always valid JSON
	return append(append(append(append(b, '"'), name...), '"', ':'), text...)
}
