-- Units outside pods. Earlier rows belong only to pods or reasons. MySQL cannot add a column only if it is missing.

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'charges' and column_name = 'unit') > 0, 'do 0', '
alter table charges
  add column manager varchar(256) not null after active_ms,
  add column unit varchar(256) not null after manager,
  add column username varchar(256) not null after unit
');
prepare change_charges from @change;
execute change_charges;
deallocate prepare change_charges;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'corrections' and column_name = 'unit') > 0, 'do 0', '
alter table corrections
  add column manager varchar(256) not null after active_ms,
  add column unit varchar(256) not null after manager,
  add column username varchar(256) not null after unit
');
prepare change_corrections from @change;
execute change_corrections;
deallocate prepare change_corrections;
