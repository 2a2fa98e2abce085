-- Activity of tensor cores and memory. It is unknown in earlier rows.

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'charges' and column_name = 'dram_active_ms') > 0, 'do 0', '
alter table charges
  add column profiled_ms bigint after labels,
  add column tensor_active_ms bigint after profiled_ms,
  add column dram_active_ms bigint after tensor_active_ms
');
prepare change_charges from @change;
execute change_charges;
deallocate prepare change_charges;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'corrections' and column_name = 'dram_active_ms') > 0, 'do 0', '
alter table corrections
  add column profiled_ms bigint after labels,
  add column tensor_active_ms bigint after profiled_ms,
  add column dram_active_ms bigint after tensor_active_ms
');
prepare change_corrections from @change;
execute change_corrections;
deallocate prepare change_corrections;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'monthly_charges' and column_name = 'dram_active_ms') > 0, 'do 0', '
alter table monthly_charges
  add column profiled_ms bigint after labels,
  add column tensor_active_ms bigint after profiled_ms,
  add column dram_active_ms bigint after tensor_active_ms
');
prepare change_monthly_charges from @change;
execute change_monthly_charges;
deallocate prepare change_monthly_charges;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'days' and column_name = 'dram_active_ms') > 0, 'do 0', '
alter table days
  add column profiled_ms bigint after labels,
  add column tensor_active_ms bigint after profiled_ms,
  add column dram_active_ms bigint after tensor_active_ms
');
prepare change_days from @change;
execute change_days;
deallocate prepare change_days;
