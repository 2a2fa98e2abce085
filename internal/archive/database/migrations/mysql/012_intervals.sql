-- The interval of each charge in its hour. Earlier rows have none. MySQL cannot add a column only if it is missing.

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'charges' and column_name = 'ended') > 0, 'do 0', '
alter table charges
  add column began datetime(3) after busy_ms,
  add column ended datetime(3) after began
');
prepare change_charges from @change;
execute change_charges;
deallocate prepare change_charges;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'corrections' and column_name = 'ended') > 0, 'do 0', '
alter table corrections
  add column began datetime(3) after busy_ms,
  add column ended datetime(3) after began
');
prepare change_corrections from @change;
execute change_corrections;
deallocate prepare change_corrections;
