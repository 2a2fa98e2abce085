-- Activity of tensor cores and memory. It is unknown in earlier rows.
alter table charges add column profiled_ms bigint;
alter table charges add column tensor_active_ms bigint;
alter table charges add column dram_active_ms bigint;
alter table corrections add column profiled_ms bigint;
alter table corrections add column tensor_active_ms bigint;
alter table corrections add column dram_active_ms bigint;
alter table monthly_charges add column profiled_ms bigint;
alter table monthly_charges add column tensor_active_ms bigint;
alter table monthly_charges add column dram_active_ms bigint;
alter table days add column profiled_ms bigint;
alter table days add column tensor_active_ms bigint;
alter table days add column dram_active_ms bigint;
