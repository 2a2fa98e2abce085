-- Activity of tensor cores and memory. It is unknown in earlier rows.
alter table charges
  add column if not exists profiled_ms bigint,
  add column if not exists tensor_active_ms bigint,
  add column if not exists dram_active_ms bigint;
alter table corrections
  add column if not exists profiled_ms bigint,
  add column if not exists tensor_active_ms bigint,
  add column if not exists dram_active_ms bigint;
alter table monthly_charges
  add column if not exists profiled_ms bigint,
  add column if not exists tensor_active_ms bigint,
  add column if not exists dram_active_ms bigint;
alter table days
  add column if not exists profiled_ms bigint,
  add column if not exists tensor_active_ms bigint,
  add column if not exists dram_active_ms bigint;
