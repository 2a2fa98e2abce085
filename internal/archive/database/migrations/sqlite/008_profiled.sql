-- Activity of tensor cores and memory. It is unknown in earlier rows.
alter table charges, corrections, monthly_charges, days
  add column if not exists profiled_ms bigint,
  add column if not exists tensor_active_ms bigint,
  add column if not exists dram_active_ms bigint;
