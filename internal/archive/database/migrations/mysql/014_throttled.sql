-- Throttled energy and time. Earlier rows have none.

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'charges' and column_name = 'power_brake_ms') > 0, 'do 0', '
alter table charges
  add column thermal_energy_mj bigint not null after ended,
  add column thermal_ms bigint not null after thermal_energy_mj,
  add column power_brake_energy_mj bigint not null after thermal_ms,
  add column power_brake_ms bigint not null after power_brake_energy_mj
');
prepare change_charges from @change;
execute change_charges;
deallocate prepare change_charges;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'corrections' and column_name = 'power_brake_ms') > 0, 'do 0', '
alter table corrections
  add column thermal_energy_mj bigint not null after ended,
  add column thermal_ms bigint not null after thermal_energy_mj,
  add column power_brake_energy_mj bigint not null after thermal_ms,
  add column power_brake_ms bigint not null after power_brake_energy_mj
');
prepare change_corrections from @change;
execute change_corrections;
deallocate prepare change_corrections;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'monthly_charges' and column_name = 'power_brake_ms') > 0, 'do 0', '
alter table monthly_charges
  add column thermal_energy_mj bigint not null after busy_ms,
  add column thermal_ms bigint not null after thermal_energy_mj,
  add column power_brake_energy_mj bigint not null after thermal_ms,
  add column power_brake_ms bigint not null after power_brake_energy_mj
');
prepare change_monthly_charges from @change;
execute change_monthly_charges;
deallocate prepare change_monthly_charges;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'days' and column_name = 'power_brake_ms') > 0, 'do 0', '
alter table days
  add column thermal_energy_mj bigint not null after ended,
  add column thermal_ms bigint not null after thermal_energy_mj,
  add column power_brake_energy_mj bigint not null after thermal_ms,
  add column power_brake_ms bigint not null after power_brake_energy_mj
');
prepare change_days from @change;
execute change_days;
deallocate prepare change_days;
