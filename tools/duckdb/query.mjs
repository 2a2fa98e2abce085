// query.mjs: run the query on standard input in DuckDB, with times in UTC, and print a JSON
// array for each row, with all values as text.
import { readFileSync } from 'node:fs'
import { DuckDBInstance } from '@duckdb/node-api'

const instance = await DuckDBInstance.create(':memory:', { threads: '2' })
const connection = await instance.connect()
await connection.run("set timezone = 'UTC'")
const reader = await connection.runAndReadAll(readFileSync(0, 'utf8'))
for (const row of reader.getRows()) {
  console.log(JSON.stringify(row.map((value) => (value === null ? null : String(value)))))
}
