-- Throttled energy and time. Earlier rows have none.
alter table charges
  add column if not exists thermal_energy_mj bigint not null default 0,
  add column if not exists thermal_ms bigint not null default 0,
  add column if not exists power_brake_energy_mj bigint not null default 0,
  add column if not exists power_brake_ms bigint not null default 0;
alter table corrections
  add column if not exists thermal_energy_mj bigint not null default 0,
  add column if not exists thermal_ms bigint not null default 0,
  add column if not exists power_brake_energy_mj bigint not null default 0,
  add column if not exists power_brake_ms bigint not null default 0;
alter table monthly_charges
  add column if not exists thermal_energy_mj bigint not null default 0,
  add column if not exists thermal_ms bigint not null default 0,
  add column if not exists power_brake_energy_mj bigint not null default 0,
  add column if not exists power_brake_ms bigint not null default 0;
alter table days
  add column if not exists thermal_energy_mj bigint not null default 0,
  add column if not exists thermal_ms bigint not null default 0,
  add column if not exists power_brake_energy_mj bigint not null default 0,
  add column if not exists power_brake_ms bigint not null default 0;
