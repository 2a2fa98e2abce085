-- Events with impossible times are filed in the hour of their arrival. MySQL cannot add a column only if it is missing.

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'events' and column_name = 'filed_by') > 0, 'do 0', '
alter table events add column filed_by varchar(256) not null
');
prepare change_events from @change;
execute change_events;
deallocate prepare change_events;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'snapshots' and column_name = 'filed_by') > 0, 'do 0', '
alter table snapshots add column filed_by varchar(256) not null
');
prepare change_snapshots from @change;
execute change_snapshots;
deallocate prepare change_snapshots;
