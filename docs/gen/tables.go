package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const tablesHead = `# Tables of the archive

<!-- Written by go generate ./docs. Do not edit. -->

[archive.md](archive.md) describes how gpuledger-archive files these tables. Times are in UTC, energy is in millijoules, durations are in milliseconds.
`

// tablesTail contains @ in place of back quotes.
const tablesTail = `
## DuckDB

DuckDB reads the Parquet files of a folder or a bucket. @union_by_name@ is required because files that were written before an upgrade do not contain later columns.
The folders of the files are named by @date@, so filter by @date@ to read only the files of some days. Prefer @billed@ to @charges@, because @billed@ contains the
corrections. If the folder contains no corrections, remove the second path from the view @billed@. @make e2e-archive@ runs these statements with DuckDB 1.5, on
the example in [archive.md](archive.md#ten-questions).

@@@sql
-- Charges and their corrections
create view billed as select * from read_parquet(['archive/charges/*/*/*.parquet', 'archive/corrections/*/*/*.parquet'], union_by_name = true, hive_partitioning = true);
create view hours as select * from read_parquet('archive/hours/*/*/*.parquet', union_by_name = true, hive_partitioning = true);
create view gpu_hours as select * from read_parquet('archive/gpu_hours/*/*/*.parquet', union_by_name = true, hive_partitioning = true);

-- kWh and GPU hours of each team in November
select team, reason, cast(sum(energy_mj) / 3600000000.0 as decimal(18, 2)) as kwh, cast(sum(gpu_ms) / 3600000.0 as decimal(18, 1)) as gpu_hours from billed
where date >= '2026-11-01' and date < '2026-12-01' group by team, reason order by team, reason;

-- Do they add up to the boards?
select (select sum(energy_mj) from billed) as billed, (select sum(energy_mj) from hours) as boards;

-- Which boards did this workload use?
select pod, serial, min(began) as began, max(ended) as ended, cast(sum(energy_mj) / 3600000000.0 as decimal(18, 2)) as kwh from billed
where workload_name = 'train' group by pod, serial order by pod;

-- Which boards had XID 79?
select hour, node, serial, xids from gpu_hours where date >= '2026-11-01' and concat(' ', xids) like '% 79=%';
@@@

## pandas and Polars

@make e2e-pandas@ runs this program with Debian's pandas 1.5, on the example in [archive.md](archive.md#ten-questions):

@@@python
import sqlite3
import pandas

billed = pandas.read_sql("select * from billed", sqlite3.connect("archive.db"), parse_dates=["hour"])
november = billed[(billed.hour >= "2026-11-01") & (billed.hour < "2026-12-01")]
sums = november.groupby(["team", "reason"])[["energy_mj", "gpu_ms"]].sum()
print(sums.to_csv())
@@@

The sums are integers, because no amount is null. @make e2e-polars@ runs a program with Polars' package for Node.js, nodejs-polars 0.24. It reads
the Parquet files of the example and prints the same sums:

@@@js
const pl = require('nodejs-polars')

const read = (table) => pl.scanParquet('archive/' + table + '/*/*/*.parquet', { hivePartitioning: false })
const hour = pl.col('hour').cast(pl.Datetime('ms')) // in UTC
const november = hour.gtEq(pl.lit(new Date('2026-11-01'))).and(hour.lt(pl.lit(new Date('2026-12-01'))))
const sums = pl.concat([read('charges'), read('corrections')], { how: 'diagonal' })
  .filter(november)
  .groupBy(['team', 'reason'])
  .agg(pl.col('energy_mj').sum(), pl.col('gpu_ms').sum())
console.log(sums.collectSync().writeCSV().toString())
@@@

The files have a column @cluster@, so the folders must not be read as partitions.

## Models for dbt

The folder [manifests/examples/dbt](../manifests/examples/dbt/dbt_project.yml) is a dbt project in plain SQL for PostgreSQL, DuckDB and SQLite:
@gpu_daily@, @gpu_monthly@, @gpu_monthly_teams@, @gpu_monthly_models@ and @gpu_monthly_idle@. [schema.yml](../manifests/examples/dbt/models/schema.yml)
documents the columns of these models. The monthly models contain corrections and the sums of pruned hours. Days are in UTC, even if the session has another time zone.

| database | variables |
|---|---|
| PostgreSQL | none |
| DuckDB | @archive_folder@, a folder or a bucket with Parquet files |
| SQLite | @archive_schema: main@ |

@make e2e-archive@ renders the models and runs them on the three databases. It compares the rows with simulated fleets, and with the output of @statement@ and @idle@. All energies must be equal to the millijoule. dbt was not run, because Debian does not package it.

## Times

The table shows the times of the [documented questions](archive.md#ten-questions) on 10 million charges of 400 GPUs and 10,000 hours, in seconds. The times were
measured in PostgreSQL 15 with its default settings, on two processors that other programs also used. The column "before" shows the times without the daily sums in the
tables @days@ and @gpu_days@. @make e2e-archive@ checks that the plan of each question reads either these daily sums or only the partitions of the month in the question.
@make bench-tables@ printed this table, and fails if a question takes more than two seconds.

| question | before | now | reads |
|---|---|---|---|
| Where was this board? | 33.7 | 0.81 | gpu_days |
| Who used it when it failed? | 0.18 | 0.03 | index of a partition of charges |
| What happened to the boards? | 84.5 | 1.25 | gpu_days |
| kWh and GPU hours of each team in November | 4.0 | 0.07 | index of days |
| Do the charges of the teams add up to the energy of the boards? | 25.5 | 1.35 | days, hours |
| In which percentage of its GPU time is a team active? | 32.7 | 1.62 | days |
| Which boards did this workload use? | 15.0 | 0.11 | days |
| Which boards had XID 79? | 1.3 | 0.12 | a partition of gpu_hours |
| Which boards were in more than one machine? | 15.6 | 1.03 | gpu_days |
| Which hours are missing? | 0.01 | 0.02 | hours |

The first start of the archive with these charges took 78 seconds to add up the daily sums. In a larger archive, run @set jit = off@, because PostgreSQL may take longer to
compile a plan than to run it.
`

func tablesPage() ([]byte, error) {
	types := map[table.Type]string{table.Text: "text", table.Int: "integer", table.OptionalInt: "integer or null", table.Time: "time", table.Date: "date"}
	out := bytes.NewBufferString(tablesHead)
	for _, t := range append(slices.Concat(table.All, table.Summaries), table.Chain) {
		fmt.Fprintf(out, "\n## %s\n\nEach row describes %s.\n\n| column | type | |\n|---|---|---|\n", t.Name, t.Help)
		for _, c := range t.Columns {
			if types[c.Type] == "" {
				return nil, fmt.Errorf("column %s of table %s has no type", c.Name, t.Name)
			}
			fmt.Fprintf(out, "| `%s` | %s | %s |\n", c.Name, types[c.Type], c.Help)
		}
	}
	out.WriteString(strings.ReplaceAll(tablesTail, "@", "`"))
	return out.Bytes(), nil
}
