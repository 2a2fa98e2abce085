-- Errors of boards. They are unknown in earlier rows.
alter table gpu_hours add column dram_correctable bigint;
alter table gpu_hours add column dram_uncorrectable bigint;
alter table gpu_hours add column sram_correctable bigint;
alter table gpu_hours add column sram_uncorrectable bigint;
alter table gpu_hours add column lifetime_uncorrectable bigint;
alter table gpu_hours add column retired_pages bigint;
alter table gpu_hours add column low_memory_banks bigint;
alter table gpu_hours add column pcie_replays bigint;
alter table gpu_hours add column nvlink_errors bigint;
alter table gpu_hours add column thermal_ms bigint;
alter table gpu_hours add column power_brake_ms bigint;
alter table gpu_hours add column recovery_action text not null default '';
