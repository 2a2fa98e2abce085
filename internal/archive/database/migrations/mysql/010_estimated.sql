-- Uncounted and estimated energy, and busy time. Earlier rows have none. MySQL cannot add a column only if it is missing.

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'gpu_hours' and column_name = 'estimated_mj') > 0, 'do 0', '
alter table gpu_hours
  add column uncounted_mj bigint not null after remapped_uncorrectable,
  add column estimated_mj bigint not null after uncounted_mj
');
prepare change_gpu_hours from @change;
execute change_gpu_hours;
deallocate prepare change_gpu_hours;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'charges' and column_name = 'busy_ms') > 0, 'do 0', '
alter table charges
  add column estimated_mj bigint not null after username,
  add column busy_ms bigint not null after estimated_mj
');
prepare change_charges from @change;
execute change_charges;
deallocate prepare change_charges;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'corrections' and column_name = 'busy_ms') > 0, 'do 0', '
alter table corrections
  add column estimated_mj bigint not null after username,
  add column busy_ms bigint not null after estimated_mj
');
prepare change_corrections from @change;
execute change_corrections;
deallocate prepare change_corrections;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'monthly_charges' and column_name = 'busy_ms') > 0, 'do 0', '
alter table monthly_charges
  add column estimated_mj bigint not null after username,
  add column busy_ms bigint not null after estimated_mj
');
prepare change_monthly_charges from @change;
execute change_monthly_charges;
deallocate prepare change_monthly_charges;
