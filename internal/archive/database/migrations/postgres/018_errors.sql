-- Errors of boards. They are unknown in earlier rows.
alter table gpu_hours
  add column if not exists dram_correctable bigint,
  add column if not exists dram_uncorrectable bigint,
  add column if not exists sram_correctable bigint,
  add column if not exists sram_uncorrectable bigint,
  add column if not exists lifetime_uncorrectable bigint,
  add column if not exists retired_pages bigint,
  add column if not exists low_memory_banks bigint,
  add column if not exists pcie_replays bigint,
  add column if not exists nvlink_errors bigint,
  add column if not exists thermal_ms bigint,
  add column if not exists power_brake_ms bigint,
  add column if not exists recovery_action text not null default '';
