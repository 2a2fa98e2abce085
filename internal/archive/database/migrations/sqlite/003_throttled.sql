-- Throttled energy and time. Earlier rows have none.
alter table charges, corrections, monthly_charges, days
  add column if not exists thermal_energy_mj bigint not null default 0,
  add column if not exists thermal_ms bigint not null default 0,
  add column if not exists power_brake_energy_mj bigint not null default 0,
  add column if not exists power_brake_ms bigint not null default 0;
