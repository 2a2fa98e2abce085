package archive

import (
	"cmp"
	"io"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/database"
)

// PrintSchema prints the SQL statements that create or update the schema of a database. For PostgreSQL, they also
// create partitions for the months in the range. The default range is the next two years.
func PrintSchema(w io.Writer, c Config, now time.Time) error {
	from := cmp.Or(c.From.Time, now)
	text, err := database.Named(c.Schema).Schema(from, cmp.Or(c.Until.Time, from.AddDate(2, 0, 0)))
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}
