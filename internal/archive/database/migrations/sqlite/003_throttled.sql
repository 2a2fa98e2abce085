-- Throttled energy and time. Earlier rows have none.
alter table charges add column thermal_energy_mj bigint not null default 0;
alter table charges add column thermal_ms bigint not null default 0;
alter table charges add column power_brake_energy_mj bigint not null default 0;
alter table charges add column power_brake_ms bigint not null default 0;
alter table corrections add column thermal_energy_mj bigint not null default 0;
alter table corrections add column thermal_ms bigint not null default 0;
alter table corrections add column power_brake_energy_mj bigint not null default 0;
alter table corrections add column power_brake_ms bigint not null default 0;
alter table monthly_charges add column thermal_energy_mj bigint not null default 0;
alter table monthly_charges add column thermal_ms bigint not null default 0;
alter table monthly_charges add column power_brake_energy_mj bigint not null default 0;
alter table monthly_charges add column power_brake_ms bigint not null default 0;
alter table days add column thermal_energy_mj bigint not null default 0;
alter table days add column thermal_ms bigint not null default 0;
alter table days add column power_brake_energy_mj bigint not null default 0;
alter table days add column power_brake_ms bigint not null default 0;
