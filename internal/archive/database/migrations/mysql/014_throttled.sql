-- Throttled energy and time. Earlier rows have none.
alter table charges, corrections
  add column if not exists thermal_energy_mj bigint not null after ended,
  add column if not exists thermal_ms bigint not null after thermal_energy_mj,
  add column if not exists power_brake_energy_mj bigint not null after thermal_ms,
  add column if not exists power_brake_ms bigint not null after power_brake_energy_mj;
alter table monthly_charges
  add column if not exists thermal_energy_mj bigint not null after busy_ms,
  add column if not exists thermal_ms bigint not null after thermal_energy_mj,
  add column if not exists power_brake_energy_mj bigint not null after thermal_ms,
  add column if not exists power_brake_ms bigint not null after power_brake_energy_mj;
alter table days
  add column if not exists thermal_energy_mj bigint not null after ended,
  add column if not exists thermal_ms bigint not null after thermal_energy_mj,
  add column if not exists power_brake_energy_mj bigint not null after thermal_ms,
  add column if not exists power_brake_ms bigint not null after power_brake_energy_mj;
