-- Errors of boards. They are unknown in earlier rows.

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'gpu_hours' and column_name = 'recovery_action') > 0, 'do 0', '
alter table gpu_hours
  add column dram_correctable bigint after estimated_mj,
  add column dram_uncorrectable bigint after dram_correctable,
  add column sram_correctable bigint after dram_uncorrectable,
  add column sram_uncorrectable bigint after sram_correctable,
  add column lifetime_uncorrectable bigint after sram_uncorrectable,
  add column retired_pages bigint after lifetime_uncorrectable,
  add column low_memory_banks bigint after retired_pages,
  add column pcie_replays bigint after low_memory_banks,
  add column nvlink_errors bigint after pcie_replays,
  add column thermal_ms bigint after nvlink_errors,
  add column power_brake_ms bigint after thermal_ms,
  add column recovery_action varchar(256) not null after power_brake_ms
');
prepare change_gpu_hours from @change;
execute change_gpu_hours;
deallocate prepare change_gpu_hours;
