// query.mjs: run queries in DuckDB, each in a new database in memory with times in UTC. Each line of standard input is
// a query as a JSON string. For each query, print its rows as a line with a JSON array, with all values as text.
import { createInterface } from 'node:readline'
import { DuckDBInstance } from '@duckdb/node-api'

for await (const line of createInterface({ input: process.stdin })) {
  const instance = await DuckDBInstance.create(':memory:', { threads: '2' })
  const connection = await instance.connect()
  await connection.run("set timezone = 'UTC'")
  const reader = await connection.runAndReadAll(JSON.parse(line))
  console.log(JSON.stringify(reader.getRows().map((row) => row.map((value) => (value === null ? null : String(value))))))
  connection.closeSync()
  instance.closeSync()
}
