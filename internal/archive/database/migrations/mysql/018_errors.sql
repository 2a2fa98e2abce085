-- Errors of boards. They are unknown in earlier rows.
alter table gpu_hours
  add column if not exists dram_correctable bigint after estimated_mj,
  add column if not exists dram_uncorrectable bigint after dram_correctable,
  add column if not exists sram_correctable bigint after dram_uncorrectable,
  add column if not exists sram_uncorrectable bigint after sram_correctable,
  add column if not exists lifetime_uncorrectable bigint after sram_uncorrectable,
  add column if not exists retired_pages bigint after lifetime_uncorrectable,
  add column if not exists low_memory_banks bigint after retired_pages,
  add column if not exists pcie_replays bigint after low_memory_banks,
  add column if not exists nvlink_errors bigint after pcie_replays,
  add column if not exists thermal_ms bigint after nvlink_errors,
  add column if not exists power_brake_ms bigint after thermal_ms,
  add column if not exists recovery_action varchar(256) not null after power_brake_ms;
